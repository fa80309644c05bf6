"""From a checked payload to a signed job: the claims, their exact bytes, the envelope. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from contracts.envelope import JOB_TYPE, Signer, seal
from contracts.errors import InvalidRequest, Problem
from contracts.ids import new_job_id
from contracts.run_agent import RunAgentRequest
from contracts.strict_json import dump_strict
from dispatch.keyring import SenderKeyring
from dispatch.routing import Route
from dispatch.sent import SentJob
from validation.admission import JobRequest


def sign_job(
    keyring: SenderKeyring,
    route: Route,
    payload: Mapping[str, object],
    request: JobRequest,
    *,
    kind: str,
    iat: int,
    exp: int,
    give_up_at: int | None = None,
    broker: str = "",
    signers: Sequence[Signer] | None = None,
) -> SentJob:
    """Return a new job for `route`, signed; `payload` goes in as it was given.

    `request` is the checked reading of it, for what is shown; `give_up_at` and `broker` are for our
    own record alone. `signers` are those of the route, where the caller has just asked for them.
    Raises InvalidRequest when it is too large, and KeysRefused when no key is valid.
    """
    claims: dict[str, Any] = {"iss": keyring.name, "aud": route.aud, "lane": route.lane}
    claims |= {"kind": kind, "jti": new_job_id(), "iat": iat, "exp": exp, "payload": dict(payload)}
    try:
        data = dump_strict(claims)
    except InvalidRequest as error:
        problems = [Problem("payload", item.message, item.remedy) for item in error.problems]
        raise InvalidRequest(problems) from error
    run = request if isinstance(request, RunAgentRequest) else None  # no other kind has these
    return SentJob(
        job_id=claims["jti"],
        aud=route.aud,
        lane=route.lane,
        kind=kind,
        queue_name=route.queue_name,
        sha256=hashlib.sha256(data).hexdigest(),
        iat=iat,
        exp=exp,
        give_up_at=give_up_at,
        envelope=seal(data, JOB_TYPE, signers or keyring.job_signers(route.aud)),
        broker=broker,
        agent=run.agent if run else "",
        ticket=run.ticket if run else "",
        repo=run.repo if run else "",
        mode=run.effective_mode if run else "",
    )
