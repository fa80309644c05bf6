"""May this verified job run here: the payload by this host's own grammar, then the host's policy.

Composes validation's rules with this machine's paths. Starts nothing and opens no repository.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from contracts.run_agent import RunAgentRequest
from validation.admission import check_payload
from validation.paths import Grammar
from validation.policy import HostPolicy, decide
from worker.repo_map import map_repo
from worker.runs.runs import RunTask
from worker.settings import HostSettings
from worker.verification import VerifiedJob

HOST_GRAMMAR: Final[Grammar] = "windows" if sys.platform == "win32" else "posix"


def admit(job: VerifiedJob, settings: HostSettings, policy: HostPolicy) -> RunTask:
    """Return the order for the run of `job`; the request in it is what was signed, untouched.

    Raises InvalidRequest with all problems, or PolicyRefused.
    """
    claims = job.claims
    repo = claims.payload.get("repo")
    mapped = map_repo(repo, settings.repo_paths) if isinstance(repo, str) else repo
    on_host = {**claims.payload, "repo": mapped} if "repo" in claims.payload else claims.payload
    check_payload(on_host, kind=claims.kind, grammar=HOST_GRAMMAR)
    request = RunAgentRequest.model_validate(claims.payload)
    decide(
        policy,
        sender=claims.iss,
        lane=claims.lane,
        aud=claims.aud,
        kind=claims.kind,
        request=request,
        repo_realpath=os.path.realpath(str(mapped)),
    )
    return RunTask(
        job_id=claims.jti,
        host=settings.host,
        payload=claims.payload,
        repo_on_host=str(mapped),
        attempt_limit_s=request.effective_timeout_s,
        require_sandbox=policy.of(claims.iss)[1].require_sandbox,
    )
