"""What one attempt's output said, kept while it streams past.

Owns the running account of an attempt: the last thing the agent said, how its turns ended, limits,
denials, and the plain lines that are no events. It keeps a bounded amount however much is printed,
and it must never judge: `classify` does, after the end.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from contracts.events import Event, EventKind
from contracts.limits import SUMMARY_MAX_CHARS
from contracts.usage import Usage
from runagent.agents import phrases, usage_count
from runagent.agents.lines import LineSplitter
from runagent.agents.protocol import Agent
from runagent.agents.quota import Quota, is_progress
from validation.redaction import RedactedStream, Redactor

_PLAIN_LINES: Final = 60
_PLAIN_LINE_CHARS: Final = 2_000
_READ_LINE_CHARS: Final = 8 * _PLAIN_LINE_CHARS  # redacted before it is cut
_SAID_MAX_CHARS: Final = 2 * SUMMARY_MAX_CHARS
_NOTES: Final = 20  # denied tools, error messages
_NOTE_CHARS: Final = 1_000

_KEPT_KINDS: Final = frozenset(EventKind) - {EventKind.DELTA, EventKind.TEXT}


def tell_nobody(_event: Event) -> None:
    """Keep no event."""


class Reading:
    """Fed with raw chunks by the reading threads (`take`), asked after the end. All that it keeps
    and shows is redacted before it is cut, so that no half of a secret is left."""

    def __init__(
        self,
        agent: Agent,
        show: Callable[[str], None] = lambda _text: None,
        redactor: Redactor | None = None,
        *,
        tell: Callable[[Event], None] = tell_nobody,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tell` gets each event that is kept, in its order, its text redacted: the parts of a
        message as one, once it is whole."""
        self._agent = agent
        self._tell = tell
        self._monotonic = monotonic
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
        self.answer_cut = False  # the last turn ended before its answer did
        self.quota = Quota()
        self.usage: Usage | None = None
        self.agent_version = ""
        self.fault_code = ""  # the CLI's own word for its last fatal error
        self.login_missing = False
        self.events = 0
        self.unknown = 0  # objects that no reader knew
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
            EventKind.USAGE: self._note_usage,
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

    def has_tried_for(self) -> float:
        """Return for how many seconds the CLI has announced retries and not got on."""
        with self._lock:
            return self.quota.has_tried_for(self._monotonic())

    def finish(self) -> None:
        """Read what stands after the last line end."""
        with self._lock:
            for stream, splitter in self._splitters.items():
                for line in splitter.finish():
                    self._read(stream, line)
            self._end_message()

    def _read(self, stream: str, line: str) -> None:
        if stream == "stderr":
            self._read_trouble(line)
            return
        events = self._events_of(line)
        if events is None:
            self.unknown += 1
        for event in events or ():
            self.events += 1
            self._note(event)
        if not events and line.strip() and not line.lstrip().startswith("{"):
            self._note_plain(stream, line)

    def _read_trouble(self, line: str) -> None:
        """Read a line of error output: plain, or a CLI's report that it tries again."""
        if not line.strip():
            return
        self._note_plain("stderr", line)
        if phrases.is_a_retry_report(line):
            text = self._redactor.redact(phrases.plain(line))
            self._note_quota(Event(kind=EventKind.QUOTA, text=text, data={"status": "retrying"}))

    def _events_of(self, line: str) -> Sequence[Event] | None:
        """Return the events of one line. A line that no reader can take (nested to the very edge
        of what may be parsed) costs itself alone, never the lines after it."""
        try:
            return self._agent.read_line(line)
        except Exception:  # noqa: BLE001 - whatever a line holds, the lines after it are read
            return None

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
        if is_progress(event):
            self.quota.get_on()
            self.login_missing = False
        if event.kind is not EventKind.TEXT and event.kind is not EventKind.USAGE:
            self._end_message()
        note = self._notes.get(event.kind)
        if note is not None:
            note(event)
        is_whole = event.kind is EventKind.TEXT and event.data.get("partial") is not True
        if is_whole or event.kind in _KEPT_KINDS:
            self._tell(event)

    def _note_session(self, event: Event) -> None:
        self.session_id = _word(event, "sessionId")[:200] or self.session_id
        self.agent_version = _word(event, "agentVersion")[:100] or self.agent_version

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
            self._tell(Event(kind=EventKind.TEXT, text=self.said))
        self._message, self._open_text = None, False

    def _note_tool(self, event: Event) -> None:
        self._show(f"[{event.text}]")

    def _note_result(self, event: Event) -> None:
        self.ended = True
        self.turn_failed = event.data.get("isError") is True
        self.end_code = _word(event, "code")
        self.answer_cut = event.data.get("isCut") is True
        if not self.turn_failed:
            self.quota.get_on()
            self.login_missing = False
            self.answer = event.text[: 2 * SUMMARY_MAX_CHARS] or self.answer
        elif event.text:
            self.errors.append(event.text[:_NOTE_CHARS])

    def _note_quota(self, event: Event) -> None:
        self.quota.note_limit(event, self._monotonic())

    def _note_usage(self, event: Event) -> None:
        usage = usage_count.from_data(event.data)
        if self.usage is not None and event.data.get("cumulative") is not True:
            usage = usage_count.total((self.usage, usage))
        self.usage = usage

    def _note_login(self, event: Event) -> None:
        self.login_missing = True
        if event.data.get("retrying") is True:
            self.quota.note_login_retry(self._monotonic())
            return
        self.errors.append(event.text[:_NOTE_CHARS])

    def _note_permission(self, event: Event) -> None:
        if event.data.get("denied") is True:
            self.denials.append(event.text[:100])

    def _note_approval(self, event: Event) -> None:
        self.approvals.append(event.text[:100])

    def _note_error(self, event: Event) -> None:
        if event.data.get("fatal") is True:
            self.fault_code = _word(event, "code")
            if event.text:
                self.errors.append(event.text[:_NOTE_CHARS])


def _word(event: Event, name: str) -> str:
    value = event.data.get(name)
    return str(value) if isinstance(value, (str, int)) else ""
