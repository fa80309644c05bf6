"""What owners' repositories say of themselves, asked once for all looks that show one moment.

Their trees share settings and refs. Never kept for longer than one list: what is acted upon is
asked for anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from runagent.git.shadow_git import INERT_PATTERN
from runagent.git.trusted_git import TrustedGit

_JOBS: Final = "refs/heads/wt/"


class RepositoryAnswers:
    """The answers of each repository, by its folder. Raises what `TrustedGit.tell` raises."""

    def __init__(self) -> None:
        self._settings: dict[str, Mapping[str, str]] = {}
        self._refs: dict[str, Sequence[tuple[str, str]]] = {}

    def settings(self, repo: str) -> Mapping[str, str]:
        """Return the settings that say how bytes lie in a tree."""
        if repo not in self._settings:
            self._settings[repo] = TrustedGit(repo).settings(INERT_PATTERN)
        return self._settings[repo]

    def other_refs(self, repo: str) -> Sequence[tuple[str, str]]:
        """Return (commit, ref) of every branch that is no job's, remote branch and tag, the one
        that moved last first."""
        if repo not in self._refs:
            listing = TrustedGit(repo).tell(
                *("for-each-ref", "--sort=-committerdate", "--format=%(objectname) %(refname)"),
                *("refs/heads", "refs/remotes", "refs/tags"),
            )
            parted = [line.partition(" ") for line in listing.splitlines()]
            pairs = [(commit, ref) for commit, _, ref in parted]
            self._refs[repo] = [pair for pair in pairs if not pair[1].startswith(_JOBS)]
        return self._refs[repo]
