"""Every trick of an agent that the tests know: the one list of them."""

from __future__ import annotations

from tests.support.trick import (
    Trick,
    has_fired,
    hush,
    make_canary,
    make_tricked_repository,
    plain_status,
    play,
)
from tests.support.tricks_on_files import TRICKS_ON_FILES
from tests.support.tricks_on_git import TRICKS_ON_GIT

__all__ = [
    "TRICKS",
    "Trick",
    "has_fired",
    "hush",
    "make_canary",
    "make_tricked_repository",
    "plain_status",
    "play",
]

TRICKS: tuple[Trick, ...] = (*TRICKS_ON_FILES, *TRICKS_ON_GIT)
