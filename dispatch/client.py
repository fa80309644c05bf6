"""FleetClient: the one way in for programs and for the verbs.

Checks, routes, signs, records and queues a job; finds and verifies its result, and sees to it that
the job is not lost on its way and that every wait ends. A status of the contract never raises. What
raises: InvalidRequest for a malformed request, Refused for a missing key, Unavailable for a broker
or disk that is away, WaitTimedOut for a wait that ends first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from contracts.clock import Clock, SystemClock
from contracts.errors import FleetError, KeysRefused
from dispatch.answers import Answers
from dispatch.cancelling import Cancelled, Cancelling
from dispatch.client_sending import ClientSending
from dispatch.client_views import ClientViews
from dispatch.http.doors import Doors
from dispatch.keyring import SenderKeyring, ring_or_refusal
from dispatch.queue import FleetQueue, Pushed
from dispatch.sent import SentJobs
from dispatch.sweeper import Sweeper, Swept
from dispatch.viewing import Viewing
from dispatch.waits import Waits

if TYPE_CHECKING:
    from dispatch.config_http import HostSectionOfSender
    from dispatch.events import EventFeed
    from dispatch.job_handle import JobHandle
    from dispatch.results import JobResult
    from dispatch.settings import Settings


class FleetClient(ClientSending, ClientViews):
    """A sender. Safe to use from threads; close it, or use it in a `with` block."""

    def __init__(
        self,
        keyring: SenderKeyring | KeysRefused,
        queue: FleetQueue,
        sent: SentJobs,
        clock: Clock | None = None,
        *,
        hosts: Mapping[str, HostSectionOfSender] | None = None,
    ) -> None:
        """`hosts` are the hosts' own doors, as `[hosts.NAME]` has them."""
        held: Clock = clock or SystemClock()
        self._doors = dict(hosts or {})
        self._queue = queue
        self._sent = sent
        self._clock = held
        doors = Doors(keyring, self._doors, held)
        self._answers = Answers(keyring, queue, sent, held, doors=doors)
        self._cancelling = Cancelling(self._answers, queue, sent, held, doors=[doors])
        self._sweeper = Sweeper(self._answers, queue, sent, held, self._cancelling)
        ClientSending.__init__(
            self, self._answers, self._sweeper, queue, sent, held, doors=self._doors
        )
        ClientViews.__init__(
            self,
            keyring,
            queue,
            self._sweeper,
            Viewing(self._answers, self._sweeper, queue, sent, held),
        )
        self.waits = Waits(self._answers, self._sweeper, queue, sent, held)

    @classmethod
    def open(cls, settings: Settings | None = None, *, clock: Clock | None = None) -> FleetClient:
        """Return the client of this installation; nothing is sent yet.

        Raises InvalidRequest for a bad configuration and KeysRefused for keys others could read.
        """
        from dispatch.settings import load_settings

        chosen, held = settings or load_settings(), clock or SystemClock()
        keyring = ring_or_refusal(chosen.places.keys_dir, chosen.sender_name, held)
        sent, queue = SentJobs(chosen.places.sent_file), FleetQueue.connect(chosen.redis_url, held)
        return cls(keyring, queue, sent, held, hosts=chosen.hosts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._queue.close()
        self._sent.close()

    def resend(self, job_id: str, *, resend_lane: bool = False) -> Pushed:
        """Queue a job of ours again, byte for byte, unless it is there, taken, or has an end.

        Meant for a broker that lost its data. A host never starts the same job twice, but another
        host of the lane may: such a job is left alone (`claim_unknown`) unless `resend_lane` is
        set, which says that nobody can have started it.
        """
        return self._sweeper.push_again(self._answers.sent_job(job_id), resend_lane=resend_lane)

    def cancel(self, job: JobHandle | str, *, why: str = "") -> Cancelled:
        """Take a job of ours back: one that waits never starts, one that runs is stopped with all
        that it started, keeps its work and ends as `failed` with the risk `cancelled`.

        Returns at once, with how far that came; `wait` returns the end. The wish is kept here and
        sent again by every later `wait`, `jobs` and `sweep` until the job has an end. `why` (300
        characters at most) is shown with the result. Raises what `result` raises, except for a
        broker that is away.
        """
        return self._cancelling.cancel(_id_of(job), why)

    def sweep(self) -> list[Swept]:
        """See to our open jobs: push again what was lost, end what is over. 50 at most a call."""
        return self._sweeper.sweep()

    # -- results out ----------------------------------------------------------------------------

    def result(self, job: JobHandle | str) -> JobResult | None:
        """Return the verified result of a job of ours, None when there is none yet.

        The first verified one is kept on this machine and answers even when the broker is away. For
        a job that this sender ended, what its receipt stands for, until a real one comes.
        Raises Refused (`unknown_job`) for a job that this sender has no record of.
        """
        return self._answers.result(self._answers.sent_job(_id_of(job)))

    def events(self, job: JobHandle | str, from_seq: int = 1) -> EventFeed:
        """Return what reads the events of a job of ours from number `from_seq` on. Raises what
        `result` raises for a job that is none of ours."""
        from dispatch.events import EventFeed

        sent = self._answers.sent_job(_id_of(job))
        ring = self._answers.keyring
        return EventFeed(self._queue, ring, sent, self._clock, from_seq=from_seq)

    def wait(
        self,
        job: JobHandle | str,
        timeout_s: float | None = None,
        *,
        give_up_after_s: float | None = None,
        on_look: Callable[[], None] | None = None,
    ) -> JobResult:
        """Return the result of a job as soon as there is one; see `result`.

        `timeout_s` None waits for ever. `give_up_after_s`: so many seconds from now the job ends
        for this sender as `abandoned`; the default is what `enqueue` was told, else 24 hours after
        it was sent unless it still waits in its queue or a living host has it. `on_look` is called
        at each look, every few seconds. Raises WaitTimedOut, and what `result` raises.
        """
        job_id = _id_of(job)
        return self.waits.wait(job_id, timeout_s, give_up_after_s=give_up_after_s, on_look=on_look)

    def wait_many(
        self,
        jobs: Sequence[JobHandle | str],
        timeout_s: float | None = None,
        *,
        on_look: Callable[[], None] = lambda: None,
    ) -> list[JobResult | FleetError]:
        """Return, in their order, the result of each job, or the error that `wait` raises for it.

        One connection hears of all their ends. `timeout_s` is for all together, None waits for
        ever; `on_look` is called after each look at all of them, twice a minute at least.
        """
        ids = [_id_of(job) for job in jobs]
        give_up = None if timeout_s is None else self._clock.monotonic() + timeout_s
        self.waits.gather(ids, timeout_s, on_look=on_look)
        found: list[JobResult | FleetError] = []
        for job_id in ids:
            left = None if give_up is None else max(0.0, give_up - self._clock.monotonic())
            try:
                found.append(self.wait(job_id, left))
            except FleetError as error:
                found.append(error)
        return found


def _id_of(job: JobHandle | str) -> str:
    return job if isinstance(job, str) else job.job_id
