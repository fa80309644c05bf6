from __future__ import annotations

import threading

import pytest

from runagent.side_by_side import side_by_side


def test_two_questions_are_asked_at_once_and_each_has_its_answer() -> None:
    both = threading.Barrier(2, timeout=30)
    answers = side_by_side(lambda: (both.wait(), "one")[1], lambda: (both.wait(), "other")[1])
    assert answers == ("one", "other")


@pytest.mark.parametrize("fails", ["one", "other"])
def test_an_error_of_either_is_raised_when_both_have_ended(fails: str) -> None:
    ended: list[str] = []

    def ask(name: str) -> None:
        if name == fails:
            raise KeyError(name)
        ended.append(name)

    with pytest.raises(KeyError, match=fails):
        side_by_side(lambda: ask("one"), lambda: ask("other"))
    assert len(ended) == 1
