"""A sender with good keys and without the right: each job is refused with one typed reason, that
stands in its signed result and in the journal, and nothing is started.

One host for all. Its policy is changed while it listens, which is how each refusal is shown to come
from the one right that was taken away.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts import naming
from contracts.dispatch_result import ResultClaims
from contracts.envelope import RESULT_TYPE, open_envelope
from dispatch.private_files import write_private_file
from tests.support.broker import running_broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import LANE, Host, listening_host

LANE_AUD = naming.lane_audience(LANE)
# What a job may do when nothing is taken away.
WIDE: dict[str, str] = {
    "kinds": '["run_agent", "ping", "pwsh"]',
    "repo_roots": '["{roots}"]',
    "validate": '"any"',
    "branches": '["master", "release/*"]',
}
TWO_AT_A_TIME = "[host]\nconcurrency = 2\n"
VALIDATORS = '[validators]\nunit = ["sh", "-c", "echo ran-$0-$1", "a b", "$HOME"]\n'


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("rights")
    with running_broker(folder / "broker") as server:
        with listening_host(folder / "fleet", server, config=TWO_AT_A_TIME) as listening:
            yield listening


def set_rights(host: Host, **changes: str) -> None:
    """Write the policy: WIDE with `changes`, for everyone."""
    rights = {"repo_roots": f'["{host.repo.parent}"]'} | changes
    lines = [f"{name} = {value}" for name, value in (WIDE | rights).items()]
    text = "\n".join(['[senders."*"]', *lines, VALIDATORS])
    write_private_file(host.fleet_home / "policy.toml", text.encode(), replace=True)


def outer_result(host: Host, job_id: str) -> Any:
    host.result(job_id, seconds=120)
    text = host.stored(job_id)
    assert text is not None
    opened = open_envelope(text, host.sender.keyring, RESULT_TYPE)
    return ResultClaims.model_validate_json(opened.payload).payload


def other_repo(host: Host) -> str:
    path = host.home.parent.parent / "elsewhere"
    return str(path if path.exists() else make_repository(path, {"secret.txt": "s\n"}))


# name -> what is taken away, what the job then asks for, the reason
CASES: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, Any], str]] = {
    "kind ping": ({"kinds": '["run_agent"]'}, {"kind": "ping", "payload": {}}, {}, "kind"),
    "kind shell": (
        {"kinds": '["ping"]'},
        {"kind": "shell", "payload": {"command": "touch started"}},
        {},
        "kind",
    ),
    "kind run_agent": ({"kinds": '["ping"]'}, {}, {}, "kind"),
    "lane": ({"lanes": '["OTHER"]'}, {}, {}, "lane"),
    "agent": ({"agents": '["claude"]'}, {}, {}, "agent"),
    "repo root": ({"repo_roots": '["/srv/nowhere"]'}, {}, {}, "repo_root"),
    "a sibling of a root by name": (
        {"repo_roots": '["{repo}x", "{repo}/.git"]'},
        {},
        {},
        "repo_root",
    ),
    "branch": ({"branches": '["release/*"]'}, {}, {"branch": "master"}, "branch"),
    "a branch of the host's choice": ({"branches": '["master"]'}, {}, {}, "branch"),
    "validateCommand": (
        {"validate": '"none"'},
        {},
        {"validateCommand": "true"},
        "validate_command",
    ),
    "a command that only begins with a validator's name": (
        {"validate": '"named"'},
        {},
        {"validateCommand": "unit; touch started"},
        "validate_command",
    ),
    "timeout": ({"max_timeout_s": "600"}, {}, {"timeoutSec": 601}, "timeout"),
    "a shell's timeout": (
        {"max_timeout_s": "600"},
        {"kind": "shell", "payload": {"command": "touch started", "timeoutSec": 601}},
        {},
        "timeout",
    ),
    "a shell without its sandbox": (
        {"require_sandbox": '["keys"]'},
        {"kind": "shell", "payload": {"command": "touch started"}},
        {},
        "sandbox",
    ),
    "a shell's folder": (
        {},
        {"kind": "pwsh", "payload": {"command": "touch started", "cwd": "/"}},
        {},
        "repo_root",
    ),
}


def job_of(host: Host, claims: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    payload = {"branch": "master", **fields}
    if "branch" not in fields and claims.get("no_branch"):
        del payload["branch"]
    given = {name: value for name, value in claims.items() if name != "no_branch"}
    return host.job(**{"payload": host.payload(**payload), **given})


def assert_refused(host: Host, job_id: str, code: str) -> None:
    outer = outer_result(host, job_id)
    result = host.result(job_id)
    assert (outer.ok, result.status.value) == (False, "failed")
    assert [risk.code for risk in result.risks] == [code], result.summary
    shown = host.read_json("job", "show", job_id)
    assert (shown["status"], shown["result"]["risks"]) == ("failed", [code])
    assert "started" not in host.journal_history(job_id)


def test_with_every_right_each_of_these_jobs_is_done(host: Host) -> None:
    set_rights(host)
    starts = host.starts
    done = host.result(host.push(host.job(payload=host.payload(branch="master"))), seconds=120)
    assert (done.status.value, host.starts) == ("completed", starts + 1)

    ping = outer_result(host, host.push(host.job(kind="ping", payload={})))
    assert (ping.ok, ping.exitCode, ping.kind) == (True, 0, "ping")
    assert f'"host":"{host.name}"' in ping.stdoutTail

    said = {"command": "echo out; echo err >&2; pwd; env; exit 3", "cwd": str(host.repo)}
    shell = outer_result(host, host.push(host.job(kind="pwsh", payload=said)))
    assert (shell.ok, shell.exitCode, shell.kind) == (False, 3, "pwsh")
    assert shell.stdoutTail.startswith(f"out\n{host.repo}\n")
    assert shell.stderrTail == "err\n"
    assert "FLEET_DISPATCH_HOME" not in shell.stdoutTail


@pytest.mark.parametrize("case", CASES)
def test_a_right_that_is_taken_away_refuses_the_job_with_its_own_reason(
    host: Host, case: str
) -> None:
    changes, claims, fields, code = CASES[case]
    changes = {k: v.replace("{repo}", str(host.repo)) for k, v in changes.items()}
    if "choice" in case:
        claims = {"no_branch": True}
    starts = host.starts
    set_rights(host, **changes)
    assert_refused(host, host.push(job_of(host, claims, fields)), code)
    assert host.starts == starts
    assert not list(host.fleet_home.glob("state/runs/*/empty/started"))


def test_a_lane_job_is_refused_where_only_jobs_for_the_host_are_taken(host: Host) -> None:
    set_rights(host, lane_jobs="false")
    job = host.job(aud=LANE_AUD, payload=host.payload(branch="master"))
    result = host.result(host.push(job), seconds=120)
    assert [risk.code for risk in result.risks] == ["lane_declined"]
    assert f"{host.name}: this host takes only jobs that are addressed to it" in result.summary


def test_links_lead_out_of_no_root(host: Host) -> None:
    """A link in a root, a root that became a link, and a `.git` that points elsewhere."""
    roots = host.home.parent.parent / "roots"
    roots.mkdir()
    inside = make_repository(roots / "app", {"a.txt": "a\n"})
    set_rights(host, repo_roots=f'["{roots}"]')

    def job(repo: Path) -> str:
        return host.push(host.job(payload=host.payload(repo=str(repo), branch="master")))

    assert host.result(job(inside), seconds=120).status.value == "completed"
    starts, target = host.starts, Path(other_repo(host))

    (roots / "link").symlink_to(target)
    assert_refused(host, job(roots / "link"), "repo_root")

    pointer = roots / "pointer"
    pointer.mkdir()
    (pointer / ".git").write_text(f"gitdir: {target / '.git'}\n")
    result = host.result(job(pointer), seconds=120)
    assert [risk.code for risk in result.risks] == ["repo_root"]

    roots.rename(roots.with_name("kept"))
    roots.symlink_to(target.parent)
    assert_refused(host, job(roots / target.name), "repo_root")
    assert host.starts == starts


def test_a_named_validator_is_started_without_a_shell_under_its_name_or_its_words(
    host: Host,
) -> None:
    set_rights(host, validate='"named"')
    for command in ("unit", "sh -c 'echo ran-$0-$1' 'a b' '$HOME'"):
        payload = host.payload(branch="master", validateCommand=command)
        job_id = host.push(host.job(payload=payload))
        result = host.result(job_id, seconds=120)
        assert result.status.value == "completed", result.summary
        said = host.fleet_home / "state" / "runs" / job_id / "validation-1.stdout"
        assert said.read_text() == "ran-a b-$HOME\n"


def test_a_busy_senders_job_waits_and_is_not_refused(host: Host) -> None:
    set_rights(host, concurrency="1", kinds='["run_agent", "ping"]')
    (host.home / "released").unlink(missing_ok=True)
    first = host.start_waiting_job(branch="master")
    second = host.push(host.job(kind="ping", payload={}))
    wait_until(lambda: "as many jobs" in shown_reason(host, second), "the job is shown to wait")
    assert host.stored(second) is None
    assert host.journal_history(second) == []
    host.release()
    assert host.result(first, seconds=120).status.value == "completed"
    assert host.result(second, seconds=120).status.value == "completed"


def shown_reason(host: Host, job_id: str) -> str:
    with host.broker.client() as client:
        return os.fsdecode(client.hget(naming.job_key(job_id), "reason") or b"")


def test_a_broken_policy_leaves_the_earlier_one_and_says_so_and_a_missing_one_leaves_none(
    host: Host,
) -> None:
    file = host.fleet_home / "policy.toml"
    set_rights(host)
    honest = host.job(payload=host.payload(branch="master"))
    assert host.result(host.push(honest), seconds=120).status.value == "completed"
    for break_it in (
        lambda: file.write_text("[senders"),
        lambda: file.write_text('[senders."*"]\nkindz = []\n'),
        lambda: (set_rights(host, kinds="[]"), file.chmod(0o644)),
    ):
        set_rights(host)
        assert outer_result(host, host.push(host.job(kind="ping", payload={}))).ok
        before = host.log.count("policy_not_taken")
        break_it()
        assert outer_result(host, host.push(host.job(kind="ping", payload={}))).ok
        assert host.log.count("policy_not_taken") == before + 1
    wait_until(lambda: "earlier policy holds" in beat_note(host), "the heartbeat says it")

    file.unlink()
    assert_refused(host, host.push(host.job(kind="ping", payload={})), "kind")
    wait_until(lambda: "nothing is allowed" in beat_note(host), "the heartbeat says it")
    set_rights(host)
    assert outer_result(host, host.push(host.job(kind="ping", payload={}))).ok
    wait_until(lambda: beat_note(host) == "", "the heartbeat is silent again")


def beat_note(host: Host) -> str:
    with host.broker.client() as client:
        return str(json.loads(client.get(naming.host_key(host.name)) or b"{}").get("note"))
