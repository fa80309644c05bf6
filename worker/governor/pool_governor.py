"""The governor of a host whose fleet has pools at the broker.

Books each start, keeps the booking for as long as its run lives, and settles it with what the run
came to. A broker that does not answer stops no run. Holds no rule of a pool: the ledger does.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from contracts.clock import Clock
from contracts.errors import FleetError
from contracts.run_agent import AgentName
from dispatch.pools.ledger import Booked, Denied, Ledger
from dispatch.pools.limit import DEFAULT_ACCOUNT, Pool, micro_dollars
from dispatch.times import age_words
from runagent.governor import Admission, AgentLimit, GovernorAnswer, Spent

_RENEWALS: Final = 3  # within one lease: two may fail
_JOIN_S: Final = 1.0


class PoolGovernor:
    """See Governor."""

    def __init__(
        self, ledger: Ledger, accounts: Mapping[AgentName, str], clock: Clock, *, lease_s: float
    ) -> None:
        """`accounts` says on which account this host runs an agent."""
        self._ledger = ledger
        self._accounts = dict(accounts)
        self._clock = clock
        self._lease_s = lease_s
        self._open: dict[str, _Kept] = {}

    def admit(self, agent: AgentName, job_id: str, attempt: int, /) -> GovernorAnswer:
        """See Governor.admit."""
        pool, booking_id = self._pool(agent), _booking_id(job_id, attempt)
        try:
            answer = self._ledger.admit(pool, booking_id, self._lease_s)
        except FleetError as error:
            return GovernorAnswer(Admission.MISSING, error.message)
        if isinstance(answer, Denied):
            return self._denied(pool, answer)
        if isinstance(answer, Booked):
            self._open[booking_id] = _Kept(self._ledger, pool, answer, self._clock, self._lease_s)
        return GovernorAnswer(Admission.ALLOWED)

    def settle(self, agent: AgentName, job_id: str, attempt: int, spent: Spent, /) -> str:
        """See Governor.settle. What the agent did not say stays as it was set aside."""
        kept = self._open.pop(_booking_id(job_id, attempt), None)
        if kept is None:
            return ""
        kept.release()
        booked = kept.booked
        tokens, micro = (booked.tokens, booked.micro) if spent.started else (0, 0)
        if spent.tokens is not None:
            tokens = spent.tokens
        if spent.dollars is not None:
            micro = micro_dollars(spent.dollars)
        try:
            self._ledger.settle(
                self._pool(agent), booked, runs=int(spent.started), tokens=tokens, micro=micro
            )
        except FleetError as error:
            return error.message
        return ""

    def close_until(self, agent: AgentName, job_id: str, limit: AgentLimit, /) -> str:
        """See Governor.close_until."""
        why = f"{limit.code} of job {job_id}: {limit.message}"
        try:
            self._ledger.close(
                self._pool(agent), until=limit.resets_at, after_s=limit.retry_after_s, why=why
            )
        except FleetError as error:
            return error.message
        return ""

    def _pool(self, agent: AgentName) -> Pool:
        return Pool(agent, self._accounts.get(agent) or DEFAULT_ACCOUNT)

    def _denied(self, pool: Pool, answer: Denied) -> GovernorAnswer:
        if answer.wait_s is None:
            when, resets_at = "waiting does not help: its limit is smaller than one start", None
        else:
            when = f"come back in {age_words(answer.wait_s)}"
            resets_at = int(self._clock.wall()) + answer.wait_s
        phrase = f"the pool {pool.name} admits no start: {answer.why}; {when}"
        return GovernorAnswer(Admission.DENIED, phrase, answer.wait_s, resets_at)


class _Kept:
    """A booking whose lease is renewed by a thread until it is released. The thread ends with the
    process, and with it the lease: that is how what a killed run held comes back."""

    def __init__(
        self, ledger: Ledger, pool: Pool, booked: Booked, clock: Clock, lease_s: float
    ) -> None:
        self.booked = booked
        self._ledger = ledger
        self._pool = pool
        self._clock = clock
        self._lease_s = lease_s
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="pool lease", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Renew no more; waits a second at most for a renewal that is on its way: a settled
        booking is not touched by one."""
        self._released.set()
        self._thread.join(_JOIN_S)

    def _renew(self) -> None:
        while not self._clock.wait(self._released, self._lease_s / _RENEWALS):
            try:
                self._ledger.renew(self._pool, self.booked, self._lease_s)
            except FleetError:
                continue  # the next one takes the booking up again


def _booking_id(job_id: str, attempt: int) -> str:
    return f"{job_id}:{attempt}"
