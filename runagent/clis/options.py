"""What a host's owner may add to the start of a CLI, and what is left out of it.

Owns the two rules. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from runagent.clis.facts import CliFacts


def refused_words(words: Sequence[str], facts: CliFacts) -> tuple[str, ...]:
    """Return those of `words` that may not be added: every option must be one that the CLI's facts
    allow, with its value behind it or bound by `=`; a word that is neither is none of ours."""
    refused, queue = [], list(words)
    while queue:
        word = queue.pop(0)
        name, bound, _ = word.partition("=")
        takes_value = facts.extra_args.get(name)
        if takes_value is None or (bound and not takes_value):
            refused.append(word)
        elif takes_value and not bound:
            if not queue:
                refused.append(word)
            else:
                queue.pop(0)
    return tuple(refused)


def without_flags(
    argv: Sequence[str], left_out: Collection[str], facts: CliFacts
) -> tuple[str, ...]:
    """Return `argv` without the options in `left_out` and their values. What stands behind `--` is
    no option."""
    kept: list[str] = []
    queue = list(argv)
    while queue:
        word = queue.pop(0)
        if word == "--":
            return (*kept, word, *queue)
        if word not in left_out:
            kept.append(word)
        elif word in facts.values and queue:
            queue.pop(0)
    return tuple(kept)
