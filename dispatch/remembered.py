"""An answer that is asked for at most once a second, where an older one does as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from contracts.clock import Clock

_T = TypeVar("_T")
_FOR_S: Final = 1.0  # well below the 10 s after which a silent host counts as lost


class Remembered(Generic[_T]):
    """What `ask` returned within the last second. Safe from threads: two may ask at once."""

    def __init__(self, ask: Callable[[], _T], clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._held: tuple[float, _T] | None = None

    def value(self) -> _T:
        """Return it, asked for if need be; raises what `ask` raises, and remembers no error."""
        held = self._held
        is_fresh = held is not None and self._clock.monotonic() - held[0] < _FOR_S
        return held[1] if held is not None and is_fresh else self.anew()

    def anew(self) -> _T:
        """Ask, whatever is remembered."""
        now = self._clock.monotonic()
        found = self._ask()
        self._held = now, found
        return found
