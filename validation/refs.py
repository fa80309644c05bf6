"""Git's rules for ref names, in pure code, so that a sender without git can apply them.

Owns which text may become a ref or be looked up as one. It must never run git: the tests hold these
rules against the real `git check-ref-format`.
"""

from __future__ import annotations

import re
from typing import Final

from contracts import limits
from contracts.naming import job_branch

_TICKET: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{limits.TICKET_MAX_CHARS}}}")
_SAFE_REF: Final = re.compile(r"[A-Za-z0-9._/-]+")
# The characters of git-check-ref-format(1), rules 4, 5 and 10.
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")
# Stands in for a job id that does not exist yet: every job id is as harmless as this one.
_SOME_JOB_ID: Final = "0" * 20


def is_ref_name(name: str) -> bool:
    """Say whether git accepts `name` as a ref of one component or more.

    The same answer as `git check-ref-format --allow-onelevel NAME`.
    """
    if not name or name == "@" or _FORBIDDEN.search(name):
        return False
    if ".." in name or "@{" in name or name.endswith("."):
        return False
    return all(_is_component(part) for part in name.split("/"))


def ticket_problem(ticket: str) -> str | None:
    """Return what is wrong with a ticket, or None: by full match, and by `wt/{jobId}/{ticket}`."""
    if _TICKET.fullmatch(ticket) is None:
        return "is not a ticket name"
    if ticket.startswith("-"):
        return "starts with '-', so that a command could read it as an option"
    if not is_ref_name(job_branch(_SOME_JOB_ID, ticket)):
        return "cannot be part of a git branch name"
    return None


def branch_problem(branch: str) -> str | None:
    """Return what is wrong with the name of a base branch, or None."""
    if len(branch) > limits.REF_MAX_BYTES:
        return f"is {len(branch)} characters long"
    if _SAFE_REF.fullmatch(branch) is None:
        return "is not a safe git ref"
    if branch.startswith("-"):
        return "starts with '-', so that git could read it as an option"
    if not is_ref_name(branch):
        return "is not a ref name that git accepts"
    return None


def _is_component(part: str) -> bool:
    return bool(part) and not part.startswith(".") and not part.endswith(".lock")
