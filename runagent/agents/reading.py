"""What one attempt's output said, kept while it streams past.

Owns the running account of an attempt: the last thing the agent said, how its turns ended, limits,
denials, and the plain lines that are no events. It keeps a bounded amount however much is printed,
and it must never judge: `classify` does, after the end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from contracts.events import Event, EventKind
from contracts.limits import SUMMARY_MAX_CHARS
from runagent.agents.lines import LineSplitter
from runagent.agents.protocol import Agent
from validation.redaction import RedactedStream, Redactor

_PLAIN_LINES: Final = 60
_PLAIN_LINE_CHARS: Final = 2_000
_READ_LINE_CHARS: Final = 8 * _PLAIN_LINE_CHARS  # redacted before it is cut
_SAID_MAX_CHARS: Final = 2 * SUMMARY_MAX_CHARS
_NOTES: Final = 20  # denied tools, error messages
_NOTE_CHARS: Final = 1_000

# After one of these a limit that was reported before did not stop the run.
_GOES_ON: Final = frozenset({EventKind.TEXT, EventKind.TOOL_CALL, EventKind.TOOL_RESULT})


class Reading:
    """Fed with raw chunks by the reading threads (`take`), asked after the end. All that it keeps
    and shows is redacted before it is cut, so that no half of a secret is left."""

    def __init__(
        self,
        agent: Agent,
        show: Callable[[str], None] = lambda _text: None,
        redactor: Redactor | None = None,
    ) -> None:
        self._agent = agent
        self._show = show
        self._redactor = redactor or Redactor()
        self._plain_streams = {name: self._redactor.stream() for name in ("stdout", "stderr")}
        self._message: RedactedStream | None = None  # the parts of a message, on their way
        self._lock = threading.Lock()
        self._splitters = {"stdout": LineSplitter(), "stderr": LineSplitter()}
        self._open_text = False  # the last text event was a part of a message
        self.session_id = ""
        self.said = ""  # the agent's last message
        self.answer = ""  # the text of the last result that had one
        self.turn_failed = False  # how the last turn ended, by the CLI's own word
        self.end_code = ""
        self.ended = False  # at least one turn was reported as ended
        self.limited = False
        self.limit_message = ""
        self.login_missing = False
        self.events = 0
        self.denials: deque[str] = deque(maxlen=_NOTES)
        self.approvals: deque[str] = deque(maxlen=_NOTES)
        self.errors: deque[str] = deque(maxlen=_NOTES)
        self.plain: dict[str, deque[str]] = {
            "stdout": deque(maxlen=_PLAIN_LINES),
            "stderr": deque(maxlen=_PLAIN_LINES),
        }
        self._notes: dict[EventKind, Callable[[Event], None]] = {
            EventKind.SESSION: self._note_session,
            EventKind.TEXT: self._note_text,
            EventKind.TOOL_CALL: self._note_tool,
            EventKind.RESULT: self._note_result,
            EventKind.QUOTA: self._note_quota,
            EventKind.AUTH_EXPIRED: self._note_login,
            EventKind.PERMISSION: self._note_permission,
            EventKind.APPROVAL: self._note_approval,
            EventKind.ERROR: self._note_error,
        }

    def take(self, stream: str, chunk: bytes) -> None:
        """Read `chunk` of `stream` ("stdout" or "stderr"). Safe from several threads."""
        with self._lock:
            for line in self._splitters[stream].feed(chunk):
                self._read(stream, line)

    def finish(self) -> None:
        """Read what stands after the last line end."""
        with self._lock:
            for stream, splitter in self._splitters.items():
                for line in splitter.finish():
                    self._read(stream, line)
            self._end_message()

    def _read(self, stream: str, line: str) -> None:
        events = self._events_of(line) if stream == "stdout" else ()
        for event in events:
            self.events += 1
            self._note(event)
        if not events and line.strip() and not line.lstrip().startswith("{"):
            self._note_plain(stream, line)

    def _events_of(self, line: str) -> Sequence[Event]:
        """Return the events of one line. A line that no reader can take (nested to the very edge
        of what may be parsed) costs itself alone, never the lines after it."""
        try:
            return self._agent.read_line(line)
        except (ValueError, RecursionError):
            return ()

    def _note_plain(self, stream: str, line: str) -> None:
        shown = self._plain_streams[stream].feed(line[:_READ_LINE_CHARS] + "\n")
        for part in shown.split("\n"):
            if part.strip():
                self.plain[stream].append(part[:_PLAIN_LINE_CHARS])
                if stream == "stdout":
                    self._show(part[:_PLAIN_LINE_CHARS])

    def _note(self, event: Event) -> None:
        if event.data.get("partial") is not True:
            event = event.model_copy(update={"text": self._redactor.redact(event.text)})
        if event.kind in _GOES_ON:
            self.limited = False
        if event.kind is not EventKind.TEXT and event.kind is not EventKind.USAGE:
            self._end_message()
        note = self._notes.get(event.kind)
        if note is not None:
            note(event)

    def _note_session(self, event: Event) -> None:
        self.session_id = _word(event, "sessionId")[:200] or self.session_id

    def _note_text(self, event: Event) -> None:
        partial = event.data.get("partial") is True
        if event.data.get("subagent") is True:
            return
        if not partial:
            self.said, self._open_text = event.text[-_SAID_MAX_CHARS:], False
            self._show(event.text)
            return
        if self._message is None or not self._open_text:
            self._message, self.said, self._open_text = self._redactor.stream(), "", True
        self._say(self._message.feed(event.text))

    def _say(self, text: str) -> None:
        self.said = (self.said + text)[-_SAID_MAX_CHARS:]
        if text:
            self._show(text)

    def _end_message(self) -> None:
        """Let out what a message still held back: its last line has no end."""
        if self._message is not None and self._open_text:
            self._say(self._message.finish())
        self._message, self._open_text = None, False

    def _note_tool(self, event: Event) -> None:
        self._show(f"[{event.text}]")

    def _note_result(self, event: Event) -> None:
        self.ended = True
        self.turn_failed = event.data.get("isError") is True
        self.end_code = _word(event, "code")
        if not self.turn_failed:
            self.limited = self.login_missing = False
            self.answer = event.text[: 2 * SUMMARY_MAX_CHARS] or self.answer
        elif event.text:
            self.errors.append(event.text[:_NOTE_CHARS])

    def _note_quota(self, event: Event) -> None:
        status = event.data.get("status")
        if status in ("rejected", "retrying"):
            self.limited = True
            self.limit_message = event.text[:_NOTE_CHARS] or self.limit_message

    def _note_login(self, event: Event) -> None:
        self.login_missing = True
        self.errors.append(event.text[:_NOTE_CHARS])

    def _note_permission(self, event: Event) -> None:
        if event.data.get("denied") is True:
            self.denials.append(event.text[:100])

    def _note_approval(self, event: Event) -> None:
        self.approvals.append(event.text[:100])

    def _note_error(self, event: Event) -> None:
        if event.data.get("fatal") is True and event.text:
            self.errors.append(event.text[:_NOTE_CHARS])


def _word(event: Event, name: str) -> str:
    value = event.data.get(name)
    return str(value) if isinstance(value, (str, int)) else ""
