"""What hosts answered to further copies of a queued job is shown where it verifies."""

from __future__ import annotations

import time

from contracts import limits, naming
from contracts.delivery import DeliveryCode, delivery_claims
from contracts.envelope import DELIVERY_TYPE, seal
from dispatch.keys import DELIVERY
from dispatch.sent import SentJobs
from tests.dispatch.desk import PAYLOAD, Desk


def test_receipts_that_a_host_left_are_shown_and_what_anybody_wrote_is_not(desk: Desk) -> None:
    with desk.client() as client, desk.broker.client() as redis:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        sent = SentJobs(desk.settings.places.sent_file).find(job.job_id)
        assert sent is not None
        texts = []
        for host, job_id in (("PC1", job.job_id), ("PC2", job.job_id), ("PC1", "b" * 20)):
            claims = delivery_claims(
                host=host,
                sender="alice",
                job_id=job_id,
                job_sha256=sent.sha256,
                code=DeliveryCode.DUPLICATE,
                now=time.time(),
            )
            signer = desk.host_ring(host).host_signer(DELIVERY, "alice")
            texts.append(seal(claims.model_dump_json().encode(), DELIVERY_TYPE, [signer]))
        huge = "x" * (limits.DELIVERY_MAX_BYTES + 1)
        key = naming.delivery_key(job.job_id)
        redis.rpush(key, texts[0], texts[0], *texts[1:], "garbage", huge)
        (view,) = client.views([job.job_id])
        assert view.why.endswith("PC1 answered duplicate 2 times")
        redis.delete(key)
        redis.set(key, "no list")
        (view,) = client.views([job.job_id])
        assert "answered" not in view.why
