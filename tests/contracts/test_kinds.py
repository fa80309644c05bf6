"""The kinds of job, and the plain results of those that have no verdict."""

from __future__ import annotations

import json

import pytest

from contracts.dispatch_result import DispatchResult
from contracts.kinds import ALIASES, KIND_NAMES, Kind, canonical_kind
from contracts.ping import PingRequest
from contracts.plain_result import PlainResult, as_kept, is_plain, read_outcome, unpacked
from contracts.run_agent import Risk, RunAgentResult, Status
from contracts.shell import ShellRequest
from tests.support.samples import result
from validation.admission import check_payload

PAYLOADS = {
    Kind.RUN_AGENT: {"agent": "codex", "task": "t", "repo": "/r", "ticket": "T-1"},
    Kind.PING: {},
    Kind.SHELL: {"command": "true"},
    Kind.PROMPT: {"agent": "codex", "prompt": "hi"},
}


def test_every_kind_has_a_check_and_its_request_is_what_was_signed() -> None:
    for kind in Kind:
        assert check_payload(PAYLOADS[kind], kind=kind).to_payload() == PAYLOADS[kind]


def test_another_name_of_a_kind_means_the_kind() -> None:
    assert canonical_kind("pwsh") == "shell"
    assert canonical_kind("ping") == "ping"
    assert canonical_kind("mail") == "mail"
    assert set(ALIASES.values()) <= set(KIND_NAMES)
    assert is_plain("pwsh")
    assert not is_plain("run_agent")


@pytest.mark.parametrize(("asked", "used"), [(None, 1200), (0, 1), (-5, 1), (7, 7), (99999, 14400)])
def test_the_time_of_a_command_is_clamped(asked: int | None, used: int) -> None:
    assert ShellRequest(command="true", timeoutSec=asked).effective_timeout_s == used
    assert PingRequest().to_payload() == {}


def test_an_end_that_was_no_run_becomes_plain_for_a_plain_kind_and_stays_for_the_other() -> None:
    refused = result(status="failed", summary="no", risks=(Risk(code="kind", message="no"),))
    plain = as_kept("shell", refused)
    assert isinstance(plain, PlainResult)
    assert (plain.status, plain.summary, plain.risks) == ("failed", "no", refused.risks)
    assert plain.needs_human_review
    assert plain.worktreePath == ""
    assert as_kept("run_agent", refused) is refused
    assert as_kept("shell", plain) is plain
    assert read_outcome("shell", plain.to_json()) == plain
    assert isinstance(read_outcome("run_agent", refused.to_json()), RunAgentResult)


@pytest.mark.parametrize(("ok", "status"), [(True, Status.COMPLETED), (False, Status.FAILED)])
def test_an_outer_result_of_a_plain_kind_without_a_status_has_the_one_that_ok_says(
    ok: bool, status: Status
) -> None:
    base = {"jobId": "j", "kind": "ping", "target": "host:A", "ok": ok, "exitCode": 0}
    outer = DispatchResult.model_validate({**base, "stdoutTail": "said"})
    read = unpacked(outer, host="A")
    assert isinstance(read, PlainResult)
    assert (read.status, read.stdoutTail, read.host) == (status, "said", "A")
    assert not read.needs_human_review or not ok
    told = unpacked(outer.model_copy(update={"status": Status.TIMED_OUT}), host="A")
    assert told.status is Status.TIMED_OUT


def test_an_outer_result_of_a_run_holds_the_run_s_own() -> None:
    run = result()
    base = {"jobId": "j", "kind": "run_agent", "target": "host:A", "ok": True, "exitCode": 0}
    outer = DispatchResult.model_validate({**base, "stdoutTail": run.to_json()})
    assert unpacked(outer, host="A") == RunAgentResult.model_validate(json.loads(run.to_json()))
