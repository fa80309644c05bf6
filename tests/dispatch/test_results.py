from __future__ import annotations

from typing import Any

import pytest

from contracts.envelope import JOB_TYPE, RESULT_TYPE, seal
from contracts.errors import EnvelopeRefused, ExitCode
from contracts.run_agent import Status
from dispatch.keyring import SenderKeyring
from dispatch.results import JobResult, choose_result, open_result, worst_exit_code
from dispatch.sent import SentJob, SentJobs
from tests.dispatch.desk import PAYLOAD, Desk, result_with


class Case:
    """One job for PC1 and one for lane A, and what may come back for them."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        with desk.client() as client:
            (self.to_host,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
            (self.to_lane,) = client.enqueue_agent(PAYLOAD, lane="A")
            (self.to_b,) = client.enqueue_agent(PAYLOAD, lane="B")
        keys = desk.settings.places.keys_dir
        self.ring = SenderKeyring.load(keys, "alice", desk.clock)

    def sent(self, job_id: str) -> SentJob:
        found = SentJobs(self.desk.settings.places.sent_file).find(job_id)
        assert found is not None
        return found

    def open(self, job_id: str, envelope: str) -> JobResult:
        return open_result(envelope, self.ring, self.sent(job_id))


@pytest.fixture
def case(desk: Desk) -> Case:
    return Case(desk)


def test_a_result_of_the_right_host_for_these_bytes_is_opened_whole(case: Case) -> None:
    job = case.to_host.job_id
    run = result_with(Status.COMPLETED, futureField={"kept": [1, 2.5]})
    result = case.open(job, case.desk.sign_result(job, "PC1", run=run))
    assert (result.host, result.status, result.exit_code) == ("PC1", Status.COMPLETED, ExitCode.OK)
    assert result.text == run.to_json()
    assert result.run.model_extra == {"futureField": {"kept": [1, 2.5]}}
    assert result.alarms == ()


def test_fields_that_a_newer_host_adds_around_the_result_are_kept(case: Case) -> None:
    job = case.to_host.job_id
    envelope = case.desk.sign_result(job, "PC1", outer={"newField": 1}, claims={"alsoNew": "x"})
    assert case.open(job, envelope).dispatch.model_extra == {"newField": 1}


def test_a_lane_job_may_be_answered_by_any_host_of_the_lane(case: Case) -> None:
    job = case.to_lane.job_id
    assert {case.open(job, case.desk.sign_result(job, host)).host for host in ("PC1", "PC2")} == {
        "PC1",
        "PC2",
    }


@pytest.mark.parametrize(
    ("claims", "outer", "code"),
    [
        ({"iss": "PC2"}, {}, "host"),
        ({"aud": "bob"}, {}, "audience"),
        ({"jti": "b" * 20}, {}, "job"),
        ({}, {"jobId": "b" * 20}, "job"),
        ({"jobSha256": "0" * 64}, {}, "job_bytes"),
        ({"jobSha256": "é"}, {}, "job_bytes"),
        ({}, {"kind": "shell"}, "kind"),
        ({}, {"stdoutTail": "{}"}, "malformed"),
        ({}, {"stdoutTail": "not json"}, "malformed"),
        ({}, {"stdoutTail": result_with(Status.COMPLETED).to_json()[:-20]}, "malformed"),
        ({"iat": "soon"}, {}, "malformed"),
    ],
)
def test_a_signed_result_that_is_not_this_jobs_is_refused(
    case: Case, claims: dict[str, Any], outer: dict[str, Any], code: str
) -> None:
    job = case.to_host.job_id
    assert case.open(job, case.desk.sign_result(job, "PC1")).host == "PC1"
    with pytest.raises(EnvelopeRefused) as refused:
        case.open(job, case.desk.sign_result(job, "PC1", claims=claims, outer=outer))
    assert refused.value.code == code


def test_another_host_cannot_answer_a_job_for_a_named_host(case: Case) -> None:
    job = case.to_host.job_id
    envelope = case.desk.sign_result(job, "PC1", ring=case.desk.host_ring("PC2"))
    with pytest.raises(EnvelopeRefused) as refused:
        case.open(job, envelope)
    assert refused.value.code == "host"
    honest = case.desk.sign_result(
        job, "PC1", ring=case.desk.host_ring("PC2"), claims={"iss": "PC2"}
    )
    with pytest.raises(EnvelopeRefused) as refused:
        case.open(job, honest)
    assert refused.value.code == "host"


def test_a_host_without_the_lane_cannot_answer_a_job_of_the_lane(case: Case) -> None:
    job = case.to_b.job_id
    assert case.open(job, case.desk.sign_result(job, "PC2")).host == "PC2"
    stranger = case.desk.sign_result(
        job, "PC2", ring=case.desk.host_ring("PC1"), claims={"iss": "PC1"}
    )
    with pytest.raises(EnvelopeRefused) as refused:
        case.open(job, stranger)
    assert refused.value.code == "lane"


def test_a_result_of_another_job_cannot_be_moved_here(case: Case) -> None:
    moved = case.desk.sign_result(case.to_lane.job_id, "PC1")
    with pytest.raises(EnvelopeRefused) as refused:
        case.open(case.to_host.job_id, moved)
    assert refused.value.code == "job"


def test_a_payload_of_another_type_or_shape_is_refused(case: Case) -> None:
    job = case.to_host.job_id
    signer = case.desk.host_ring("PC1").result_signer("alice")
    for payload, kind in ((b"{}", RESULT_TYPE), (b"[]", RESULT_TYPE), (b"{}", JOB_TYPE)):
        with pytest.raises(EnvelopeRefused):
            case.open(job, seal(payload, kind, [signer]))
    for text in ("", "{}", "null", "\x00", "[" * 100):
        with pytest.raises(EnvelopeRefused):
            case.open(job, text)


def test_an_outer_ok_that_contradicts_the_status_is_an_alarm(case: Case) -> None:
    job = case.to_host.job_id
    run = result_with(Status.FAILED)
    result = case.open(job, case.desk.sign_result(job, "PC1", run=run, outer={"ok": True}))
    assert result.status is Status.FAILED
    assert len(result.alarms) == 1


def test_the_first_that_verifies_wins_and_a_different_one_is_an_alarm(case: Case) -> None:
    job, desk = case.to_lane.job_id, case.desk
    first = desk.sign_result(job, "PC1")
    again = desk.sign_result(job, "PC1", claims={"iat": 5})
    other = desk.sign_result(job, "PC2", run=result_with(Status.FAILED))

    quiet = choose_result(["garbage", "", first, again], case.ring, case.sent(job))
    loud = choose_result(["garbage", first, other], case.ring, case.sent(job))
    assert quiet is not None
    assert loud is not None
    assert (quiet.host, quiet.alarms) == ("PC1", ())
    assert (loud.host, loud.status) == ("PC1", Status.COMPLETED)
    assert loud.alarms == ("host PC2 signed another result for this job: failed",)
    assert choose_result(["garbage"], case.ring, case.sent(job)) is None
    assert choose_result([], case.ring, case.sent(job)) is None


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.COMPLETED, 0),
        (Status.FAILED, 4),
        (Status.TIMED_OUT, 4),
        (Status.RATE_LIMITED, 5),
        (Status.APPROVAL_REQUIRED, 6),
    ],
)
def test_each_status_has_its_exit_code(case: Case, status: Status, code: int) -> None:
    job = case.to_host.job_id
    envelope = case.desk.sign_result(job, "PC1", run=result_with(status))
    assert case.open(job, envelope).exit_code == code


def test_the_worst_exit_code_is_the_one_that_cannot_be_waited_out() -> None:
    assert worst_exit_code([]) is ExitCode.OK
    assert worst_exit_code([ExitCode.OK, ExitCode.RATE_LIMITED]) is ExitCode.RATE_LIMITED
    assert worst_exit_code([ExitCode.APPROVAL_REQUIRED, ExitCode.FAILED]) is ExitCode.FAILED
    assert worst_exit_code([ExitCode.WAIT_TIMED_OUT, ExitCode.OK]) is ExitCode.WAIT_TIMED_OUT
    assert {worst_exit_code([code]) for code in ExitCode} == set(ExitCode)
