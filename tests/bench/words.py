"""A task of a certain size that is no repetition, the same each time: as a person's would be."""

from __future__ import annotations

import random

_SYLLABLES = ("mend", "the", "test", "of", "par", "ser", "ta", "ble", "queue", "so", "that", "in")


def task_of(size: int) -> str:
    """Return `size` characters of words."""
    dice = random.Random(size)
    words: list[str] = []
    length = 0
    while length < size:
        word = "".join(dice.choices(_SYLLABLES, k=dice.randint(1, 3)))
        words.append(word)
        length += len(word) + 1
    return " ".join(words)[:size]
