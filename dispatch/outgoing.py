"""A signed job of ours as the queue takes it. Pure."""

from __future__ import annotations

from dispatch.queue import Outgoing
from dispatch.sent import SentJob


def outgoing(job: SentJob) -> Outgoing:
    """Return `job` as the queue takes it, with what people are shown of it."""
    shown = {"jti": job.job_id, "aud": job.aud, "lane": job.lane, "kind": job.kind}
    shown |= {"agent": job.agent, "ticket": job.ticket, "repo": job.repo, "mode": job.mode}
    shown |= {"state": "queued", "enqueued_at": str(job.iat), "updated_at": str(job.iat)}
    return Outgoing(
        job_id=job.job_id, queue_name=job.queue_name, envelope_text=job.envelope, shown=shown
    )
