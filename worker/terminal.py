"""What a person at a terminal sees of a local run: one moving line, and what to do next.

Owns everything that a local run writes to stderr. Agents' words are shown inert: nothing that an
agent prints can move the cursor, set a title or hide text. It must never write to stdout.
"""

from __future__ import annotations

import shlex
import shutil
import threading
from typing import Final, TextIO

from contracts.clock import Clock
from contracts.run_agent import RunAgentResult
from runagent.text import one_line

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
        columns = max(_NARROWEST, shutil.get_terminal_size().columns) - 1
        with self._lock:
            seconds = int(self._clock.monotonic() - self._began)
            text = f"{seconds // 60:02}:{seconds % 60:02} {self._phase}"
            if self._line:
                text = f"{text}: {self._line}"
            self._write(_CLEAR_LINE + one_line(text, columns))

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._over.set()  # the terminal is gone; the run is not


def next_steps(result: RunAgentResult, repo: str) -> str:
    """Return the lines for a first review of `result`: what happened, then how to look at the
    work, how to take it into `repo` and how to drop it. Empty without a worktree."""
    head = f"{result.status}: {one_line(result.summary, 300)}"
    if not result.worktreePath:
        return head
    tree, main = shlex.quote(result.worktreePath), shlex.quote(repo)
    branch, ticket = shlex.quote(result.branch), shlex.quote(_ticket_of(result.branch))
    risks = [f"risk:   {one_line(risk, 300)}" for risk in result.known_risks]
    return "\n".join(
        [
            head,
            *risks,
            f"review: git -C {tree} add -A && git -C {tree} diff --cached {result.baseCommit[:12]}",
            f"merge:  git -C {tree} commit -m {ticket}; git -C {main} merge {branch}",
            f"drop:   git -C {main} worktree remove --force {tree}",
        ]
    )


def _ticket_of(branch: str) -> str:
    return branch.rpartition("/")[2]
