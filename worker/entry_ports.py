"""What the entry of a listener works with: one value, built once at the edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contracts.clock import Clock
from dispatch.keyring import HostKeyring
from validation.policy import HostPolicy
from worker.announcer import Say
from worker.broker.board import Board
from worker.broker.lane_claims import LaneClaims
from worker.broker.outbox import Outbox
from worker.crash_points import UNARMED, CrashPoints
from worker.journal.journal import Journal
from worker.kinds.protocol import JobKind
from worker.receipts import Receipts
from worker.reserve import Reserve
from worker.runs.lost_runs import LostRuns
from worker.settings import HostSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPorts:
    """What the entry works with."""

    settings: HostSettings
    policy: HostPolicy
    keyring: HostKeyring
    journal: Journal
    lanes: LaneClaims
    board: Board
    outbox: Outbox
    receipts: Receipts
    kinds: Mapping[str, JobKind]
    reserve: Reserve
    lost_runs: LostRuns
    look_for_cancel: Callable[[str], None]  # may raise Redis's errors
    clock: Clock
    say: Say
    crash: CrashPoints = UNARMED
