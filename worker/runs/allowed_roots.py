"""The roots of a policy, held against the repository itself at the moment it is opened.

A path that was under a root when the job was admitted may be a link by now, and a folder under a
root may have a `.git` that leads to a repository elsewhere: what counts is where git's own data is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from contracts.errors import PolicyRefused
from runagent.trees.repo_trust import RepoTrust


class AllowedRoots:
    """A RepoTrust that asks the roots first, then `inner`."""

    def __init__(self, roots: Sequence[str], inner: RepoTrust) -> None:
        """`roots` are absolute and were resolved when the policy was read."""
        self._roots = roots
        self._inner = inner

    def check(self, common_dir: str) -> None:
        """See RepoTrust.check. Raises PolicyRefused (code `repo_root`) for one elsewhere."""
        real = os.path.normcase(os.path.realpath(common_dir))
        roots = [os.path.normcase(root) for root in self._roots]
        if not any(real == root or real.startswith(os.path.join(root, "")) for root in roots):
            raise PolicyRefused(
                "the repository's own git data is under none of the allowed roots",
                code="repo_root",
                remedy="name a repository that lies under repo_roots of policy.toml as a whole",
            )
        self._inner.check(common_dir)

    def quarantine(self, common_dir: str, *, repo: str, job_id: str, why: tuple[str, ...]) -> None:
        """See RepoTrust.quarantine."""
        self._inner.quarantine(common_dir, repo=repo, job_id=job_id, why=why)
