"""Is the listener a service, and is its unit what the settings say."""

from __future__ import annotations

from collections.abc import Iterator

from worker.diagnosis.finding import Finding, Machine, fails, holds, warns
from worker.service.choice import choose_supervisor
from worker.service.description import describe_service
from worker.service.keeper import ServiceKeeper, UnitState
from worker.service.supervisor import NO_MANAGER, RUNNING


def check_service(machine: Machine) -> Iterator[Finding]:
    """Look at the units of this user and of the whole machine."""
    if not machine.is_host:
        return
    found = [_look(machine, of_machine=of_machine) for of_machine in (False, True)]
    present = [finding for finding in found if finding is not None]
    yield from present
    if not present:
        yield holds("service", "not installed as one: listen runs while somebody runs it")


def _look(machine: Machine, *, of_machine: bool) -> Finding | None:
    supervisor = choose_supervisor(
        machine.environment, config_dir=machine.host.config_dir, of_machine=of_machine
    )
    if not supervisor.file.exists() and not supervisor.file.is_symlink():
        return None
    service = describe_service(machine.host, machine.environment, of_machine=of_machine)
    look = ServiceKeeper(supervisor, service, machine.runner, machine.environment).look()
    install = f"fleet-dispatch service install{' --system' if of_machine else ''}"
    where = f"{supervisor.name}, {supervisor.file}"
    if look.unit is UnitState.FOREIGN:
        what = f"{where} was not written by this installation"
        return warns("service", what, "look at it, and move it away if it is not needed")
    if look.unit is UnitState.OUTDATED:
        return fails("service", f"{where} is not what the settings say now", install)
    if look.state == NO_MANAGER:
        remedy = f"start {supervisor.name}, or run fleet-dispatch listen some other way"
        return warns("service", f"{where} is in place, and nothing starts it: {look.says}", remedy)
    if look.state != RUNNING:
        return warns("service", f"{where} is in place; {look.state}", install)
    return holds("service", f"{where} is in place and running")
