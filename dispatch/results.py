"""Which stored text is the result of a job: the one that a granted host signed for these bytes.

Pure, over the keyring and the sender's record. Nothing is parsed before a signature holds, and
everything that a signature does not cover is thrown away. The first that verifies wins; another
verified one that says something else is an alarm, never a replacement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import ValidationError

from contracts.dispatch_result import DispatchResult, ResultClaims
from contracts.envelope import RESULT_TYPE, open_envelope
from contracts.errors import EnvelopeRefused, ExitCode, InvalidRequest
from contracts.plain_result import Outcome, is_plain, unpacked
from contracts.run_agent import RunAgentResult, Status
from contracts.strict_json import parse_strict_object
from dispatch.keyring import SenderKeyring
from dispatch.keys import parse_key_id
from dispatch.receipts import Receipt
from dispatch.sent import SentJob

_EXIT_CODES: Final = {
    Status.COMPLETED: ExitCode.OK,
    Status.FAILED: ExitCode.FAILED,
    Status.TIMED_OUT: ExitCode.FAILED,
    Status.RATE_LIMITED: ExitCode.RATE_LIMITED,
    Status.APPROVAL_REQUIRED: ExitCode.APPROVAL_REQUIRED,
}
# From harmless to worst. A limit or a pending approval can be waited out, a failure cannot.
_BY_SEVERITY: Final = (
    ExitCode.OK,
    ExitCode.RATE_LIMITED,
    ExitCode.APPROVAL_REQUIRED,
    ExitCode.WAIT_TIMED_OUT,
    ExitCode.FAILED,
    ExitCode.REFUSED,
    ExitCode.BUG,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """A verified result. `outcome` is the typed one; `text` is JSON as the host wrote it: for
    `run_agent` that of the same, for every other kind that of the outer result.

    `alarms` says what else came that should not have: a second, different result, or an outer
    statement that contradicts the inner one. `receipt` is our own end of the job, where there is
    one; with `host` "" it is all that there is, and `outcome` is what it stands for.
    """

    job_id: str
    host: str
    dispatch: DispatchResult
    outcome: Outcome
    text: str = field(repr=False)
    envelope: str = field(repr=False)
    alarms: tuple[str, ...] = ()
    receipt: Receipt | None = None

    @property
    def run(self) -> RunAgentResult | None:
        """Return the `run_agent` result, None for a job of another kind."""
        return self.outcome if isinstance(self.outcome, RunAgentResult) else None

    @property
    def note(self) -> str:
        """Return `abandoned at TIME` or `expired at TIME` for a job that we ended, else ""."""
        return "" if self.receipt is None else self.receipt.note

    @property
    def status(self) -> Status:
        """Return the status: one of the contract's five."""
        return self.outcome.status

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code that the status stands for."""
        return _EXIT_CODES[self.outcome.status]


def worst_exit_code(codes: Sequence[ExitCode]) -> ExitCode:
    """Return the worst of `codes`; OK when there are none."""
    return max(codes, key=_BY_SEVERITY.index, default=ExitCode.OK)


def open_result(envelope: str, keyring: SenderKeyring, sent: SentJob) -> JobResult:
    """Return the result in `envelope` if it is one of `sent`.

    Raises EnvelopeRefused: its code says why (`unknown_key`, `bad_signature`, `host`, `lane`,
    `audience`, `job`, `job_bytes`, `kind`, `malformed`, …).
    """
    opened = open_envelope(envelope, keyring, RESULT_TYPE)
    key_id = parse_key_id(opened.kid)
    assert key_id is not None  # the keyring answers to well-formed ids alone
    claims = _read_claims(opened.payload)
    _check_claims(claims, key_id.aud_name, keyring, sent)
    dispatch = claims.payload
    try:
        outcome = unpacked(dispatch, host=claims.iss)
    except ValidationError as error:
        raise EnvelopeRefused("not a result of its kind", code="malformed") from error
    alarms: tuple[str, ...] = ()
    if dispatch.ok != (outcome.status is Status.COMPLETED):
        alarms = ("the outer `ok` contradicts the status of the result",)
    return JobResult(
        job_id=sent.job_id,
        host=claims.iss,
        dispatch=dispatch,
        outcome=outcome,
        text=told_text(dispatch),
        envelope=envelope,
        alarms=alarms,
    )


def told_text(dispatch: DispatchResult) -> str:
    """Return the JSON that people and programs are shown of the outer result `dispatch`."""
    return dispatch.model_dump_json() if is_plain(dispatch.kind) else dispatch.stdoutTail


def choose_result(
    envelopes: Sequence[str], keyring: SenderKeyring, sent: SentJob
) -> JobResult | None:
    """Return the first of `envelopes` that verifies, with an alarm for each that verifies as well
    and says something else; None when none does. What does not verify is ignored."""
    chosen: JobResult | None = None
    alarms: list[str] = []
    for envelope in envelopes:
        try:
            result = open_result(envelope, keyring, sent)
        except EnvelopeRefused:
            continue
        if chosen is None:
            chosen = result
        elif (result.dispatch, result.host) != (chosen.dispatch, chosen.host):
            alarms.append(
                f"host {result.host} signed another result for this job: {result.status.value}"
            )
    if chosen is None or not alarms:
        return chosen
    return replace(chosen, alarms=(*chosen.alarms, *alarms))


def _read_claims(payload: bytes) -> ResultClaims:
    try:
        return ResultClaims.model_validate(parse_strict_object(payload, field="result"))
    except (InvalidRequest, ValidationError) as error:
        raise EnvelopeRefused("the claims are not a result's", code="malformed") from error


def _check_claims(
    claims: ResultClaims, signing_host: str, keyring: SenderKeyring, sent: SentJob
) -> None:
    """Hold each claim against who signed and what was sent."""
    lanes = keyring.lanes_ever_of(signing_host)
    checks = (
        (claims.iss == signing_host, "host", "signed by another host than it says"),
        (not sent.target or sent.target == signing_host, "host", "not the host of the job"),
        (bool(sent.target) or sent.lane in lanes, "lane", "a host without this lane"),
        (claims.aud == keyring.name, "audience", "for another sender"),
        (claims.jti == sent.job_id == claims.payload.jobId, "job", "for another job"),
        (claims.payload.kind == sent.kind, "kind", "of another kind"),
        (claims.jobSha256 == sent.sha256, "job_bytes", "for other job bytes"),
    )
    for holds, code, message in checks:
        if not holds:
            raise EnvelopeRefused(message, code=code)
