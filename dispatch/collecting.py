"""How often this process looks for garbage that reference counts do not find.

Loading a verb makes some hundred thousand objects that all stay: the interpreter's own rhythm walks
them thirty times over and finds nothing, for a sixth of the start. Imports nothing of ours, so that
it can be the first thing that a process does.
"""

from __future__ import annotations

import gc
from typing import Final

# Objects made and kept between two looks; the interpreter's own number is 700. No verb that only
# asks and prints comes to more than a few looks, and what a look may find stays below some 10 MB.
_SELDOM: Final = 20_000
_USUAL: Final = gc.get_threshold()


def collect_seldom() -> None:
    """Look for garbage seldom: for a process that begins."""
    gc.set_threshold(_SELDOM, *_USUAL[1:])


def collect_no_more() -> None:
    """Look for garbage no more: for a process that ends. The interpreter would walk all that was
    loaded three times more before it gives everything back to the system as it is."""
    gc.freeze()


def collect_as_usual() -> None:
    """Look for garbage in the interpreter's own rhythm, but no more at what was loaded until now:
    for a process that stays."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
