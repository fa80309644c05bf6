"""What the entry of a listener works with: one value, built once at the edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from contracts.clock import Clock
from dispatch.keyring import HostKeyring
from worker.announcer import Say
from worker.broker.board import Board
from worker.broker.lane_claims import LaneClaims
from worker.broker.outbox import Outbox
from worker.crash_points import UNARMED, CrashPoints
from worker.journal.journal import Journal
from worker.kinds.table import HostKinds
from worker.policy_file import Policies
from worker.receipts import Receipts
from worker.reserve import Reserve
from worker.runs.lost_runs import LostRuns
from worker.seats import Seats
from worker.settings import HostSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPorts:
    """What the entry works with."""

    settings: HostSettings
    policy: Policies
    keyring: HostKeyring
    journal: Journal
    lanes: LaneClaims
    board: Board
    outbox: Outbox
    receipts: Receipts
    kinds: HostKinds
    seats: Seats
    reserve: Reserve
    lost_runs: LostRuns
    look_for_cancel: Callable[[str], None]  # may raise Redis's errors
    clock: Clock
    say: Say
    crash: CrashPoints = UNARMED
