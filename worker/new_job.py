"""What the journal keeps of a job that is about to be claimed: no task, nothing secret. Pure."""

from __future__ import annotations

from contracts import limits
from worker.journal.records import NewJob
from worker.repo_map import map_repo
from worker.settings import HostSettings
from worker.verification import VerifiedJob


def new_job(job: VerifiedJob, settings: HostSettings, *, door: str) -> NewJob:
    """Return the claim of `job` that came through `door`, with the repo as this host has it."""
    claims = job.claims
    shown = {name: claims.payload.get(name) for name in ("agent", "ticket", "mode", "repo")}
    facts = {name: value for name, value in shown.items() if isinstance(value, str)}
    facts = {name: value for name, value in facts.items() if len(value) <= limits.PATH_MAX_CHARS}
    if "repo" in facts:
        facts["repo"] = map_repo(facts["repo"], settings.repo_paths)
    return NewJob(
        jti=claims.jti,
        iss=claims.iss,
        kind=claims.kind,
        lane=claims.lane,
        aud=claims.aud,
        job_sha256=job.sha256,
        iat=claims.iat,
        exp=claims.exp,
        facts={**facts, "kid": job.kid, "host": settings.host, "door": door},
    )
