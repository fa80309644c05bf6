"""Whether a repository may be used: one in which a job planted programs waits for a person.

A repository whose shared settings or hooks gained something that makes git start a program during
a job is set aside: the owner's next git command there would obey it. Only a person takes it back.
"""

from __future__ import annotations

from typing import Final, Protocol


class RepoTrust(Protocol):
    """Remembers repositories that were set aside. Both may raise Unavailable or CouldNotCheck."""

    def check(self, common_dir: str) -> None:
        """Return if the repository with the shared git directory `common_dir` may be used.

        Raises RepositoryRefused (code `repo_quarantined`) naming what was planted and the command
        that takes the repository back.
        """
        ...

    def quarantine(self, common_dir: str, *, repo: str, job_id: str, why: tuple[str, ...]) -> None:
        """Set the repository aside; `why` names the settings and hooks. Twice adds to the first."""
        ...


class TrustAll:
    """Sets nothing aside."""

    def check(self, common_dir: str) -> None:
        """See RepoTrust.check."""

    def quarantine(self, common_dir: str, *, repo: str, job_id: str, why: tuple[str, ...]) -> None:
        """See RepoTrust.quarantine."""


TRUST_ALL: Final = TrustAll()
