"""All checks, in the order in which a person would ask. One that cannot be made is a finding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from contracts.errors import FleetError
from worker.diagnosis.broker import check_broker
from worker.diagnosis.disks import check_roots, check_state_folder
from worker.diagnosis.finding import Check, Finding, Machine, fails, of_error
from worker.diagnosis.installed import check_installation, check_permissions
from worker.diagnosis.journal import check_journal
from worker.diagnosis.keys import check_grants, check_policy
from worker.diagnosis.programs import check_agents, check_git
from worker.diagnosis.sandbox import check_sandbox
from worker.diagnosis.service import check_service

# What a check is called when it cannot be made at all.
CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("installed files", check_installation),
    ("permissions", check_permissions),
    ("broker", check_broker),
    ("grants", check_grants),
    ("policy", check_policy),
    ("agents", check_agents),
    ("git", check_git),
    ("repository roots", check_roots),
    ("state folder", check_state_folder),
    ("sandbox", check_sandbox),
    ("journal", check_journal),
    ("service", check_service),
)


def examine(machine: Machine, checks: Iterable[tuple[str, Check]] = CHECKS) -> tuple[Finding, ...]:
    """Return every finding about `machine`. Never raises for what a check meets."""
    found: list[Finding] = []
    for name, check in checks:
        try:
            found.extend(check(machine))
        except FleetError as error:
            found.append(of_error(name, error))
        except OSError as error:
            what = f"cannot be looked at: {error.strerror or type(error).__name__}"
            found.append(fails(name, what, "give this user the rights to look there"))
    return tuple(found)
