"""The doors of hosts, for one sender's jobs: posting one, asking for its result, taking it back.

Everything that is believed is signed by a granted host; a status alone is only ever a refusal or a
delay. Keeps nothing: what was sent and what came stands in the sender's own record.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from contracts import limits
from contracts.clock import Clock
from contracts.delivery_code import DeliveryCode
from contracts.errors import AnswerLost, EnvelopeRefused, KeysRefused, Refused, Unavailable
from dispatch.http.address import DoorAddress, parse_door_url
from dispatch.http.refusals import refusal_of
from dispatch.keyring import SenderKeyring
from dispatch.sent import SentJob

if TYPE_CHECKING:
    from contracts.delivery import DeliveryClaims
    from dispatch.config_http import HostSectionOfSender
    from dispatch.http.exchange import Reply

LONG_POLL_S: Final = 25.0  # below the host's own bound, and below most idle limits on the way
# A host without a free slot is asked again with the same bytes, so often.
_BUSY_TRIES: Final = 5
_BUSY_PAUSE_S: Final = 2.0
_AWAY_S: Final = 1.0  # below the pause between two asks of one wait
_BUSY_PAUSE_MAX_S: Final = 10.0  # whatever an unsigned answer names
# What a host says to a cancel: it obeys, the job had ended, or it knows none and will start none.
_OF_CANCELS: Final = (DeliveryCode.CANCELLING, DeliveryCode.REFUSED, DeliveryCode.UNKNOWN)


def exchange(address: DoorAddress, path: str, text: str, *, wait_s: float = 0.0) -> Reply:
    """See `dispatch.http.exchange.exchange`: its HTTP and TLS are loaded by the first request."""
    from dispatch.http import exchange as wire

    return wire.exchange(address, path, text, wait_s=wait_s)


class Doors:
    """The doors that one sender knows."""

    def __init__(
        self,
        keyring: SenderKeyring | KeysRefused,
        hosts: Mapping[str, HostSectionOfSender],
        clock: Clock,
    ) -> None:
        self._ring = keyring
        self._hosts = hosts
        self._clock = clock
        self._away: dict[str, float] = {}

    def post(self, job: SentJob) -> DeliveryClaims:
        """Hand a signed job to its door; return the host's signed receipt: it is on the host's
        disk, now or already.

        An answer that was lost is asked for once more with the same bytes. Raises Unavailable when
        nobody is there or no slot is free, AnswerLost when the host may have the job, and Refused
        with the reason's code.
        """
        address = self._address(job)
        if len(job.envelope) > limits.HTTP_JOB_MAX_BYTES:  # said here: a door hangs up on it
            raise refusal_of(413, address.url, "too_large")
        reply = self._posted(job, address)
        for _ in range(_BUSY_TRIES):
            if reply.status != 503:
                break
            pause = min(reply.retry_after_s or _BUSY_PAUSE_S, _BUSY_PAUSE_MAX_S)
            self._clock.wait(threading.Event(), pause)
            reply = self._posted(job, address)
        claims = self._receipt(job, address, reply)
        if claims.code not in (DeliveryCode.ACCEPTED, DeliveryCode.DUPLICATE):
            raise Refused(
                f"host {claims.iss} does not take the job: {claims.note or claims.code.value}",
                code="host_refused",
                remedy="mend what it says, and send a new job",
            )
        return claims

    def result_text(self, job: SentJob, wait_s: float = 0.0) -> str | None:
        """Return what the door gives out as the job's result, unchecked; None while the host says,
        signed, that there is none yet.

        Raises Unavailable, and Refused (`unknown_there`) when the host says that it has no such
        job though it took it once.
        """
        from contracts.ask import Asked
        from dispatch.control_signing import sign_ask

        address = self._address(job)
        host = job.target or job.door_host or address.name
        if not host:
            raise Refused(
                f"no host has said that it has job {job.job_id}, so that none can be asked",
                code="not_taken",
                remedy="send it again under its idempotency key, or send a new one",
            )
        asked, text = sign_ask(
            self._keyring, job.job_id, host, Asked.RESULT, now=self._clock.wall()
        )
        path = f"/v1/ask?wait={int(wait_s)}"
        reply = self._asked(address, path, text, wait_s)
        if reply.status == 200:
            return reply.text
        claims = self._receipt(job, address, reply, nonce=asked.nonce)
        if claims.code is DeliveryCode.UNKNOWN and job.pushed_at is not None:
            raise Refused(
                f"host {claims.iss} took job {job.job_id} and knows nothing of it now",
                code="unknown_there",
                remedy="its journal was lost, or the job is older than 7 days; send it anew",
            )
        return None

    def post_cancel(self, job: SentJob, text: str) -> bool:
        """Hand over a signed cancel; say whether this way leads to the job's host.

        Raises Unavailable when it does and nobody answers.
        """
        if not job.url:
            return False
        address = self._address(job)
        claims = self._receipt(job, address, exchange(address, "/v1/cancel", text))
        if claims.code not in _OF_CANCELS:  # somebody on the way answered with an earlier receipt
            raise AnswerLost(f"{address.url} did not answer what was asked", remedy="ask again")
        return True

    def _posted(self, job: SentJob, address: DoorAddress) -> Reply:
        try:
            return exchange(address, "/v1/jobs", job.envelope)
        except AnswerLost:
            self._clock.wait(threading.Event(), _BUSY_PAUSE_S)
            return exchange(address, "/v1/jobs", job.envelope)

    def _asked(self, address: DoorAddress, path: str, text: str, wait_s: float) -> Reply:
        """Ask a door, unless it was away a moment ago: many jobs of one host that is away cost one
        wait for it and not one each."""
        now = self._clock.monotonic()
        if now - self._away.get(address.url, -_AWAY_S) < _AWAY_S:
            raise Unavailable(f"{address.url} was away just now", remedy="ask again later")
        try:
            return exchange(address, path, text, wait_s=wait_s)
        except Unavailable:
            self._away[address.url] = self._clock.monotonic()
            raise

    @property
    def _keyring(self) -> SenderKeyring:
        if isinstance(self._ring, KeysRefused):
            raise self._ring
        return self._ring

    def _address(self, job: SentJob) -> DoorAddress:
        """Return where the job's host is now: as config.toml has it, else as it was sent."""
        section = self._hosts.get(job.target)
        if section is not None:
            return parse_door_url(section.url, cacert=job.cacert or section.cacert, name=job.target)
        address = parse_door_url(job.url, cacert=job.cacert)
        return replace(address, name=job.target)

    def _receipt(
        self, job: SentJob, address: DoorAddress, reply: Reply, *, nonce: str = ""
    ) -> DeliveryClaims:
        """Return the signed word in a reply. Raises Refused or Unavailable for every other one."""
        if reply.status == 503:
            raise Unavailable(
                f"the host at {address.url} has no free slot, or ends",
                remedy="send the same again later; nothing was started",
            )
        if reply.status >= 500:  # a proxy whose host is away just now, or a host with a mishap
            raise AnswerLost(
                f"{address.url} cannot answer now ({reply.status})", remedy="ask again"
            )
        from dispatch.deliveries import open_delivery

        try:
            return open_delivery(reply.text, self._keyring, job, nonce=nonce)
        except EnvelopeRefused as error:
            raise refusal_of(reply.status, address.url, error.code) from error
