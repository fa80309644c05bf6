"""The wardens that one runner has alive, and the end of what a lost warden was watching.

A guardian (a process that runs one job and starts programs in no other way) adopts the orphans of
a warden that was killed, and so finds even those that shed session and environment.
"""

from __future__ import annotations

from runagent._cgroup import end_all, leaf_of, members, remove
from runagent._orphans import become_guardian, end_adopted, end_orphans


class Family:
    """The live wardens of a runner, by pid."""

    def __init__(self, *, is_guardian: bool) -> None:
        self._is_guardian = is_guardian and become_guardian()
        self._wardens: set[int] = set()

    def add(self, warden: int) -> None:
        """Take note of a warden that was started."""
        self._wardens.add(warden)

    def end_left(self, warden: int, *, marker: str, session: int) -> int:
        """End what the lost `warden` watched; return how many processes that were."""
        self._wardens.discard(warden)
        leaf = leaf_of(marker, warden)
        ended = len(members(leaf))
        end_all(leaf)
        ended += end_orphans(marker=marker, session=session)
        if self._is_guardian:
            ended += end_adopted(frozenset(self._wardens))
        remove(leaf)
        return ended

    def drop(self, warden: int) -> None:
        """Forget a warden that has ended."""
        self._wardens.discard(warden)

    @property
    def finds_all(self) -> bool:
        """Say whether nothing of a lost warden's can be left."""
        return self._is_guardian
