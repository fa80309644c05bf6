"""The queue's side of control: what stands at the broker for this host, looked at when it rings and
every few seconds.

A ring wakes and names a job at most; a cancel counts by its signature alone. Bounded in what is
read and in what is remembered, and a broker that is away is waited for. Decides nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from contracts import naming
from contracts.clock import Clock
from contracts.errors import CouldNotCheck, InvalidRequest, Refused, Unavailable
from contracts.ids import is_job_id
from dispatch.queue.bounded_reads import is_wrong_type
from worker.announcer import Say
from worker.asks import TEXT_MAX_BYTES
from worker.control import Answer, Control

_LISTEN_S: Final = 1.0
_LOOK_EVERY_S: Final = 3.0
_PAUSE_S: Final = 2.0
_RINGS_MAX: Final = 100  # of one look; further ones are for the next
_ASKS_MAX: Final = 100
_AWAY: Final = (RedisError, Unavailable, CouldNotCheck)
# In one step: nothing can be swapped between the look at a size and the read.
_TAKE_ASKS: Final = """
local found = {}
for _ = 1, tonumber(ARGV[2]) do
    local item = redis.call('LPOP', KEYS[1])
    if not item then break end
    if #item <= tonumber(ARGV[1]) then found[#found + 1] = item end
end
return found
"""


class ControlWatch:
    """The watch of one host."""

    def __init__(
        self,
        connection: Redis,
        host: str,
        control: Control,
        *,
        held: Callable[[], Collection[str]],
        clock: Clock,
        say: Say,
        answer: Callable[[Answer], None],
    ) -> None:
        """`held` gives the ids of the jobs in this host's hands. `answer` is told what is said to
        an order or a question, and sees to it that its sender hears it."""
        client: Any = connection  # redis types every answer as sync or awaitable
        self._redis = client
        self._host = host
        self._control = control
        self._held = held
        self._clock = clock
        self._say = say
        self._answer = answer
        self._pubsub = client.pubsub(ignore_subscribe_messages=True)
        self._lock = threading.Lock()
        self._seen: dict[str, str] = {}  # what was answered already, of the jobs in our hands

    def run(self, stop: threading.Event) -> None:
        """Look until `stop` is set, whatever the broker does."""
        due = self._clock.monotonic()
        while not stop.is_set():
            try:
                rung = self._listen()
                if rung or self._clock.monotonic() >= due:
                    self.look([*self._held(), *sorted(rung)])
                    self._take_asks()
                    due = self._clock.monotonic() + _LOOK_EVERY_S
            except _AWAY:
                self._pubsub.close()
                self._clock.wait(stop, _PAUSE_S)
        self._pubsub.close()

    def look(self, job_ids: Sequence[str]) -> None:
        """Look whether one of these jobs was taken back. May raise Redis's and the journal's
        errors."""
        held = set(self._held())
        with self._lock:
            self._seen = {job: text for job, text in self._seen.items() if job in held}
        for job_id in dict.fromkeys(job_ids):
            text = self._read(job_id)
            if text and self._seen.get(job_id) != text:
                self._cancel(job_id, text)
                with self._lock:
                    self._seen[job_id] = text

    def _cancel(self, job_id: str, text: str) -> None:
        try:
            answer = self._control.cancel(text, job_id=job_id)
        except (Refused, InvalidRequest) as error:
            self._say("cancel_refused", job=job_id, reason=getattr(error, "code", error.kind))
            return
        self._answer(answer)

    def _listen(self) -> set[str]:
        """Return the ids that rang, "" for a ring without one; empty when nothing did."""
        if not self._pubsub.subscribed:
            self._pubsub.subscribe(naming.control_channel(self._host))
        rung: set[str] = set()
        message = self._pubsub.get_message(timeout=_LISTEN_S)
        while message is not None and len(rung) < _RINGS_MAX:
            data = message.get("data")
            text = data.decode("ascii", "replace") if isinstance(data, bytes) else ""
            rung.add(text if is_job_id(text) else "")
            message = self._pubsub.get_message(timeout=0.0)
        return rung

    def _read(self, job_id: str) -> str:
        if not is_job_id(job_id):
            return ""
        try:
            data = self._redis.getrange(naming.cancel_key(job_id), 0, TEXT_MAX_BYTES)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            return ""  # nothing of a sender's
        return data.decode("utf-8", "replace") if isinstance(data, bytes) else ""

    def _take_asks(self) -> None:
        key = naming.asks_list(self._host)
        try:
            found = self._redis.eval(_TAKE_ASKS, 1, key, str(TEXT_MAX_BYTES), str(_ASKS_MAX))
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self._redis.unlink(key)  # nothing of a sender's
            return
        for item in found:
            try:
                answer = self._control.ask(item.decode("utf-8", "replace"))
            except (Refused, InvalidRequest) as error:
                self._say("ask_refused", reason=getattr(error, "code", error.kind))
                continue
            self._answer(answer)
