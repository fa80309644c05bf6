"""What a person at a terminal sees of a local run: one moving line, and what to do next.

Owns everything that a local run writes to stderr. Agents' words are shown inert: nothing that an
agent prints can move the cursor, set a title or hide text. It must never write to stdout.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
import unicodedata
from typing import TYPE_CHECKING, Final, TextIO

from contracts.clock import Clock
from validation.inert import one_line

if TYPE_CHECKING:
    from contracts.run_agent import RunAgentResult

_EVERY_S: Final = 1.0
_CLEAR_LINE: Final = "\r\x1b[2K"
_NARROWEST: Final = 20


class Progress:
    """A RunWatcher that keeps one line on a terminal: elapsed time, phase, last agent line."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._began = clock.monotonic()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._phase = "starting"
        self._line = ""
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def start(self) -> None:
        """Show the line, and keep its time moving."""
        self._draw()
        self._ticker.start()

    def stop(self) -> None:
        """Take the line away."""
        self._over.set()
        self._ticker.join()
        with self._lock:
            self._write(_CLEAR_LINE)

    def phase(self, name: str) -> None:
        """See RunWatcher.phase."""
        with self._lock:
            self._phase = name
        self._draw()

    def agent_line(self, text: str) -> None:
        """See RunWatcher.agent_line."""
        with self._lock:
            self._line = one_line(text, 500)

    def _tick(self) -> None:
        while not self._clock.wait(self._over, _EVERY_S):
            self._draw()

    def _draw(self) -> None:
        columns = max(_NARROWEST, self._columns()) - 1
        with self._lock:
            seconds = int(self._clock.monotonic() - self._began)
            text = f"{seconds // 60:02}:{seconds % 60:02} {self._phase}"
            if self._line:
                text = f"{text}: {self._line}"
            self._write(_CLEAR_LINE + fitting(one_line(text, columns), columns))

    def _columns(self) -> int:
        """Ask the terminal that is written to: stdout may be a file meanwhile."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns
        except (OSError, ValueError):
            return shutil.get_terminal_size().columns

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._over.set()  # the terminal is gone; the run is not


def fitting(text: str, columns: int) -> str:
    """Return the part of `text` that takes at most `columns` cells: a character of East Asian
    scripts takes two, and a line that wraps could not be taken back."""
    taken = 0
    for position, character in enumerate(text):
        taken += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if taken > columns:
            return text[:position]
    return text


def open_missing_streams() -> None:
    """Give a process that was started with closed standard streams (`2>&-`) empty ones: else the
    next file that is opened takes the number, and what is meant for people is written into it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest free number is given out, which is the missing one.
            descriptor = os.open(os.devnull, os.O_RDWR)
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def next_steps(result: RunAgentResult, repo: str) -> str:
    """Return the lines for a first review of `result`: what happened, then how to look at the
    work, how to take it into `repo` and how to drop it. Empty without a worktree."""
    review = " (needs review)" if result.needs_human_review and result.worktreePath else ""
    head = f"{result.status}{review}: {one_line(result.summary, 300)}"
    if not result.worktreePath:
        return head
    tree, main = shlex.quote(result.worktreePath), shlex.quote(repo)
    branch, ticket = shlex.quote(result.branch), shlex.quote(_ticket_of(result.branch))
    risks = [f"risk:   {one_line(risk, 300)}" for risk in result.known_risks]
    if any(risk.code == "tampered" for risk in result.risks):
        # Our own advice must not be what starts the planted program.
        look = f"review: look at the files in {tree} first; do not run git there before"
        return "\n".join([head, *risks, look])
    drop = f"git -C {main} worktree remove --force {tree} && git -C {main} branch -D {branch}"
    if any(risk.code == "no_changes" for risk in result.risks):
        return "\n".join([head, *risks, f"drop:   {drop}"])
    return "\n".join(
        [
            head,
            *risks,
            *_about_validation(result, tree),
            f"review: git -C {tree} add -A && git -C {tree} diff --cached {result.baseCommit[:12]}",
            f"merge:  git -C {tree} commit -m {ticket}; git -C {main} merge {branch}",
            f"drop:   {drop}",
        ]
    )


def _about_validation(result: RunAgentResult, tree: str) -> list[str]:
    """Return how to run a failed command again, and which files `add -A` takes in that the agent
    did not make."""
    from contracts.run_agent import CommandState

    lines = [
        f"again:  cd {tree} && {item.command}"
        for item in result.validation.commands
        if item.state is CommandState.FAILED and item.command == one_line(item.command, 300)
    ]
    if result.validator_changed_files:
        names = one_line(", ".join(result.validator_changed_files), 200)
        lines.append(f"note:   the validation wrote files too, and add -A takes them in: {names}")
    return lines


def _ticket_of(branch: str) -> str:
    return branch.rpartition("/")[2]
