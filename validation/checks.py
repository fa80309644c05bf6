"""Which commands judge the work, and how their outcome is told.

Owns the plan (what the sender asked for, else one .NET target at the root, else nothing and said
so), the four states of a command and the lines of `tests_attempted`. Pure: it sees names, not a
disk, and starts nothing. It must never report a command as run that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from contracts.run_agent import (
    CommandState,
    Risk,
    Validation,
    ValidationCommand,
    ValidationSource,
)
from validation.masking import masks_exit_code
from validation.text import shortened, shown_name

__all__ = [
    "DETECTOR_NAMES",
    "CheckOutcome",
    "Plan",
    "PlannedCommand",
    "attempted_lines",
    "command_state",
    "masks_exit_code",
    "plan_checks",
    "validation_of",
]

_COMMAND_MAX_CHARS: Final = 1_000  # of a command's text inside a result
# What a shell says for "found but not executable" and "not found": the command did not run.
_NEVER_RAN: Final = frozenset({126, 127})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCommand:
    """One command to run in the worktree.

    `argv` is started directly; it is empty for the sender's own command, which is the one text
    that a shell gets. `text` is what people read.
    """

    text: str
    argv: tuple[str, ...] = ()

    @property
    def needs_shell(self) -> bool:
        """Say whether `text` has to be run by a shell."""
        return not self.argv


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run, in order, stopping at the first that does not pass."""

    source: ValidationSource
    commands: tuple[PlannedCommand, ...] = ()
    skipped_why: str = ""
    risks: tuple[Risk, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """What became of one planned command; `why` for one that was not started, `limit_s` for one
    that was stopped at its time limit."""

    text: str
    state: CommandState
    exit_code: int | None = None
    seconds: float = 0.0
    why: str = ""
    limit_s: float = 0.0


def plan_checks(
    validate_command: str | None,
    root_names: Sequence[str],
    detectors: Sequence[str] = (),
    *,
    pipefail: bool = False,
    argv: tuple[str, ...] = (),
) -> Plan:
    """Return what judges the work.

    `root_names` are the names of the regular files at the worktree's root, `detectors` the further
    detectors that the host's config names, in its order, and `pipefail` says whether the shell that
    runs the sender's command has that option on. `argv`, when set, is what the host's policy has
    under the name that the sender's command is: it is started as it stands, and no shell sees it.
    No detector is asked where a .NET project or solution is present, so that none can change what
    such a tree gets.
    """
    if validate_command is not None and argv:
        return Plan(source=ValidationSource.OVERRIDE, commands=(_direct(*argv),))
    if validate_command is not None:
        return _requested(validate_command, pipefail=pipefail)
    names = sorted(name for name in root_names if not name.startswith("."))
    solutions = [name for name in names if name.casefold().endswith(".sln")]
    projects = [name for name in names if name.casefold().endswith(".csproj")]
    targets = solutions or projects
    if len(targets) == 1:
        return _dotnet(targets[0])
    if targets:
        kind = "*.sln" if solutions else "*.csproj"
        return _skipped(f"{len(targets)} {kind} files at the root are ambiguous")
    for detector in detectors:
        commands = _DETECTORS[detector](names) if detector in _DETECTORS else ()
        if commands:
            planned = tuple(_direct(*argv) for argv in commands)
            return Plan(source=ValidationSource.AUTODETECTED, commands=planned)
    return _skipped("no validateCommand, and no *.sln or *.csproj at the root")


def command_state(exit_code: int | None, *, timed_out: bool = False) -> CommandState:
    """Return the state of a command by its exit code, as a shell would say it; None when there is
    none. 126 and 127 say that nothing ran."""
    if timed_out:
        return CommandState.TIMED_OUT
    if exit_code is None or exit_code in _NEVER_RAN:
        return CommandState.NOT_RUN
    return CommandState.PASSED if exit_code == 0 else CommandState.FAILED


def attempted_lines(outcomes: Sequence[CheckOutcome]) -> tuple[str, ...]:
    """Return the lines of `tests_attempted`, one for each command."""
    return tuple(_attempted_line(outcome) for outcome in outcomes)


def validation_of(plan: Plan, outcomes: Sequence[CheckOutcome]) -> Validation:
    """Return the `validation` part of a result.

    `ran` is true only when every planned command was really run. A planned command without an
    outcome stands there as not run.
    """
    commands = [
        ValidationCommand(
            command=shortened(outcome.text, _COMMAND_MAX_CHARS),
            exit=outcome.exit_code,
            seconds=round(outcome.seconds, 3),
            state=outcome.state,
        )
        for outcome in outcomes
    ]
    commands += [
        ValidationCommand(command=shortened(planned.text, _COMMAND_MAX_CHARS))
        for planned in plan.commands[len(outcomes) :]
    ]
    ran = bool(commands) and all(c.state is not CommandState.NOT_RUN for c in commands)
    return Validation(ran=ran, source=plan.source, commands=tuple(commands))


def _attempted_line(outcome: CheckOutcome) -> str:
    command = shortened(outcome.text, _COMMAND_MAX_CHARS)
    if outcome.state is CommandState.TIMED_OUT:
        return f"{command} => timed out after {outcome.limit_s or outcome.seconds:.0f} s"
    if outcome.exit_code is not None:
        return f"{command} => exit {outcome.exit_code}"
    return f"{command} => not started: {outcome.why or 'no reason is known'}"


def _requested(command: str, *, pipefail: bool) -> Plan:
    risks: tuple[Risk, ...] = ()
    if masks_exit_code(command, pipefail=pipefail):
        message = (
            "the validation command can end with 0 though a part of it failed "
            "(a pipe, '||', ';' or '&'); its pass proves little"
        )
        risks = (Risk(code="validation_masked", message=message),)
    planned = (PlannedCommand(text=command),)
    return Plan(source=ValidationSource.OVERRIDE, commands=planned, risks=risks)


def _skipped(why: str) -> Plan:
    risk = Risk(code="validation_skipped", message=f"validation was skipped: {why}")
    return Plan(source=ValidationSource.NONE, skipped_why=why, risks=(risk,))


def _dotnet(target: str) -> Plan:
    # A leading '-' is an option to dotnet, a leading '@' a file of options.
    path = f"./{target}" if target.startswith(("-", "@")) else target
    commands = (_direct("dotnet", "build", path), _direct("dotnet", "test", path))
    return Plan(source=ValidationSource.AUTODETECTED, commands=commands)


def _direct(*argv: str) -> PlannedCommand:
    return PlannedCommand(text=" ".join(shown_name(part) for part in argv), argv=argv)


def _pytest(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    marks = {"pytest.ini", "conftest.py", "tox.ini", "setup.cfg", "pyproject.toml"}
    return (("pytest",),) if marks.intersection(names) else ()


def _npm(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return (("npm", "test"),) if "package.json" in names else ()


def _cargo(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return (("cargo", "build"), ("cargo", "test")) if "Cargo.toml" in names else ()


def _go(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return (("go", "build", "./..."), ("go", "test", "./...")) if "go.mod" in names else ()


def _make(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    marks = {"Makefile", "makefile", "GNUmakefile"}
    return (("make", "test"),) if marks.intersection(names) else ()


_Detector = Callable[[Sequence[str]], tuple[tuple[str, ...], ...]]
_DETECTORS: Final[dict[str, _Detector]] = {
    "npm": _npm,
    "pytest": _pytest,
    "cargo": _cargo,
    "go": _go,
    "make": _make,
}
DETECTOR_NAMES: Final = tuple(_DETECTORS)
