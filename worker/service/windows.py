"""The listener as a task of Windows' Task Scheduler, registered through pwsh. Written from
Microsoft's documentation and never run: there was no such machine. Ending a task is no TERM:
nothing is drained, runs under way end with it and are `failed` with `listener_lost`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from runagent.process import ProcessOutcome
from worker.service.description import Service
from worker.service.launchd import NEVER_RUN
from worker.service.supervisor import NO_MANAGER, RUNNING, STOPPED, Command, was_answered

TASK: Final = "fleet-dispatch"
_NO_DRAIN: Final = "ending the task does not drain: stop the listener with Ctrl-C in a console"
# Once a minute is the shortest that the Task Scheduler restarts after a failure; it counts to 999.
_TEMPLATE: Final = """<Task version="1.3" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>{mark}</Description>
  </RegistrationInfo>
  <Triggers>
    <{trigger}>
      <Enabled>true</Enabled>
    </{trigger}>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <LogonType>{logon}</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>999</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>pwsh</Command>
      <Arguments>{arguments}</Arguments>
      <WorkingDirectory>{folder}</WorkingDirectory>
    </Exec>
  </Actions>
</Task>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScheduler:
    """The Task Scheduler's part of a service."""

    folder: Path  # where the task's text is kept: the installation's own folder
    of_machine: bool = False

    @property
    def name(self) -> str:
        """See Supervisor.name."""
        return "Task Scheduler"

    @property
    def file(self) -> Path:
        """See Supervisor.file."""
        return self.folder / f"{TASK}.task.xml"

    def text(self, service: Service) -> str:
        """See Supervisor.text. A task that ends is started again by its own loop: the
        scheduler restarts after failures only."""
        set_all = "".join(
            f"$env:{name}={_pwsh(value)}; " for name, value in service.environment.items()
        )
        script = (
            f"$ErrorActionPreference='Stop'; {set_all}"
            f"while ($true) {{ & {_pwsh(str(service.program))} listen; Start-Sleep -Seconds 5 }}"
        )
        arguments = f'-NoProfile -NonInteractive -Command "{script}"'
        return _TEMPLATE.format(
            mark=escape(service.mark),
            trigger="BootTrigger" if self.of_machine else "LogonTrigger",
            logon="S4U" if self.of_machine else "InteractiveToken",
            arguments=escape(arguments),
            folder=escape(str(service.state_dir)),
        )

    def commands(self, what: str) -> tuple[Command, ...]:
        """See Supervisor.commands."""
        name = _pwsh(TASK)
        read = f"(Get-Content -Raw -Encoding utf8 -LiteralPath {_pwsh(str(self.file))})"
        register = f"Register-ScheduledTask -TaskName {name} -Xml {read} -Force | Out-Null"
        table = {
            "start": (register, f"Start-ScheduledTask -TaskName {name}"),
            "stop": (
                f"Stop-ScheduledTask -TaskName {name}",
                f"Unregister-ScheduledTask -TaskName {name} -Confirm:$false",
            ),
            "forget": (),
            "state": (f"(Get-ScheduledTask -TaskName {name}).State",),
        }
        start = ("pwsh", "-NoProfile", "-NonInteractive", "-Command")
        stop_first = "$ErrorActionPreference='Stop'; "
        return tuple((*start, f"{stop_first}{script}") for script in table[what])

    def read_state(self, outcome: ProcessOutcome) -> str:
        """See Supervisor.read_state."""
        if not was_answered(outcome):
            return NO_MANAGER
        return RUNNING if outcome.stdout.strip() == b"Running" else STOPPED

    def notes(self, service: Service, environment: Mapping[str, str]) -> tuple[str, ...]:
        """See Supervisor.notes."""
        del service, environment
        return (NEVER_RUN, _NO_DRAIN)


def _pwsh(text: str) -> str:
    """Return `text` as one literal of pwsh: nothing in it is expanded."""
    return "'" + text.replace("'", "''") + "'"
