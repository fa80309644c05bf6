"""The commands that queue jobs, packed for the wire at once: one transaction for a whole batch.

RQ writes some thirty words for each job, nearly all of them the same for every job. They are taken
from RQ itself once and packed once; for each job only what is its own is added. What a host finds
is what RQ would have written, word for word.
"""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from redis.exceptions import ConnectionError as ConnectionBroke
from redis.exceptions import ResponseError, WatchError
from redis.exceptions import TimeoutError as AnswerTookTooLong

from contracts import limits, naming
from dispatch.queue.board import SHOWN_TTL_S

_DAY_S: Final = 86_400
# RQ's hash goes when no host could accept its envelope any more.
_STORED_JOB_TTL_S: Final = limits.JOB_TTL_MAX_S + _DAY_S
_RQ_RESULT_TTL_S: Final = 60  # RQ's own result is only a pointer
# An envelope is base64: what can be won is won by its alphabet. Level 6 takes twice the time for a
# hundredth of the size. A small text is stored in the same format as it is: packing takes a tenth
# of its whole enqueue, and wins some 4 KB of a broker until the job is taken. The least window and
# memory that zlib knows, since it clears whatever it is given: 4 µs instead of 60.
_PACK_LEVEL: Final = 1
_SMALL_BYTES: Final = 8_192
_STORE_LEVEL: Final = 0
_STORE_WINDOW: Final = 9
_STORE_MEMORY: Final = 1
_OWN_WORDS: Final = frozenset({"created_at", "data", "origin", "description"})  # of each job


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One signed job on its way: the envelope, its queue and what is shown of it (all text)."""

    job_id: str
    queue_name: str
    envelope_text: str = field(repr=False)
    shown: Mapping[str, str] = field(default_factory=dict)


class Packed(NamedTuple):
    """A transaction as bytes, how many commands it has, and the places of those that queue."""

    parts: list[bytes]
    commands: int
    pushes: tuple[int, ...]


def pack_jobs(jobs: Sequence[Outgoing], *, now: float, over: bool, trims: bool) -> Packed:
    """Return the transaction that queues `jobs` and rings each of their queues once.

    `over` writes over whatever stands under their keys; ids that nobody knows yet need no such.
    `trims` takes what is too old to be shown out of the list of jobs.
    """
    created = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()
    parts = [_packed("MULTI")]
    queues: dict[str, list[str]] = {}
    for job in jobs:
        parts += _job_parts(job, created, over=over)
        queues.setdefault(job.queue_name, []).append(job.job_id)
    commands = len(parts) - 1
    parts.append(_packed("SADD", _registry(), *map(naming.rq_list, queues)))
    parts += [_packed("RPUSH", naming.rq_list(name), *ids) for name, ids in queues.items()]
    pushes = tuple(range(commands + 1, commands + 1 + len(queues)))
    listed = [word for job in jobs for word in (repr(now), job.job_id)]
    parts.append(_packed("ZADD", naming.jobs_index(), *listed))
    if trims:
        bound = repr(now - SHOWN_TTL_S)
        parts.append(_packed("ZREMRANGEBYSCORE", naming.jobs_index(), "-inf", bound))
    parts += [_packed("PUBLISH", naming.bell_channel(name), "1") for name in queues]
    commands = len(parts) - 1
    parts.append(_packed("EXEC"))
    return Packed(parts, commands, pushes)


def transact(connection: Any, packed: Packed) -> list[Any]:
    """Send a transaction in one round trip; return the answers of its commands, errors as they are.

    Raises WatchError when a watched key changed or the connection broke: then nobody knows, and all
    is to be looked at again. Raises redis's other errors; then nothing was written.
    """
    try:
        connection.send_packed_command([b"".join(packed.parts)])
        first = [answer_of(connection) for _ in range(packed.commands + 1)]
        done = answer_of(connection)
    except (ConnectionBroke, AnswerTookTooLong, OSError) as error:
        connection.disconnect()
        if isinstance(error, ConnectionBroke):
            raise WatchError("the connection broke") from error
        raise
    except BaseException:
        connection.disconnect()  # answers are on their way that nobody will read
        raise
    for answer in (*first, done):
        if isinstance(answer, Exception):
            raise answer
    if done is None:
        raise WatchError("a watched key changed")
    return list(done)


def answer_of(connection: Any) -> Any:
    """Return the next answer, an error of the server's as itself: the next one is read as well."""
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def rq_key(job_id: str) -> str:
    """Return the key of RQ's own hash of a job."""
    return f"rq:job:{job_id}"


def _job_parts(job: Outgoing, created: bytes, *, over: bool) -> list[bytes]:
    call = json.dumps([naming.ENTRY_PATH, None, [job.envelope_text], {}]).encode()
    head, same = _same_words()
    said = f"fleet-dispatch job {job.job_id}"  # else RQ writes the whole call there
    words: list[str | bytes] = ["created_at", created, "data", _deflated(call)]
    words += ["origin", job.queue_name, "description", said]
    kept, shown = rq_key(job.job_id), naming.job_key(job.job_id)
    told = {"jti": job.job_id, **job.shown}
    parts = [_packed("DEL", kept)] if over else []
    parts.append(head + _texts(("HSET", kept)) + same + _words(words))
    parts.append(_packed("EXPIRE", kept, str(_STORED_JOB_TTL_S)))
    parts.append(_packed("HSET", shown, *(word for pair in told.items() for word in pair)))
    parts.append(_packed("EXPIRE", shown, str(SHOWN_TTL_S)))
    return parts


def _deflated(data: bytes) -> bytes:
    """Return `data` as RQ keeps it: any inflation reads what is packed and what is stored."""
    if len(data) > _SMALL_BYTES:
        return zlib.compress(data, _PACK_LEVEL)
    packer = zlib.compressobj(_STORE_LEVEL, zlib.DEFLATED, _STORE_WINDOW, _STORE_MEMORY)
    return packer.compress(data) + packer.flush()


@functools.cache
def _same_words() -> tuple[bytes, bytes]:
    """Return the head of the command that writes RQ's hash, and the words that are in all."""
    from rq.job import (  # loaded here: rq is slow to import, and only a push needs it
        Job,
        JobStatus,
    )
    from rq.serializers import JSONSerializer

    nobody: Any = object()  # the hash is written by us: RQ's own link is never used
    job = Job.create(
        naming.ENTRY_PATH,
        args=[""],
        connection=nobody,
        serializer=JSONSerializer,
        id="0" * 20,
        origin="q",
        status=JobStatus.QUEUED,
        description="",
        timeout=-1,  # RQ's own deadline is off: ours is inside the signature
        result_ttl=_RQ_RESULT_TTL_S,
    )
    same = {name: value for name, value in job.to_dict().items() if name not in _OWN_WORDS}
    flat = [word for name, value in same.items() for word in (name, _own_text(value))]
    count = 2 + len(flat) + 2 * len(_OWN_WORDS)
    return b"*%d\r\n" % count, _words(flat)


def _own_text(value: object) -> str:
    return str.__str__(value) if isinstance(value, str) else str(value)  # a status is its text


@functools.cache
def _registry() -> str:
    from rq.queue import Queue

    return Queue.redis_queues_keys


def _packed(*words: str) -> bytes:
    """Return one command as the broker's protocol has it."""
    return b"*%d\r\n" % len(words) + _texts(words)


def _words(words: Iterable[str | bytes]) -> bytes:
    data = [word.encode() if isinstance(word, str) else word for word in words]
    return b"".join([b"$%d\r\n%b\r\n" % (len(item), item) for item in data])


def _texts(words: Sequence[str]) -> bytes:
    """Return what `_words` does of texts alone: where all is ASCII, characters are bytes."""
    joined = "".join([f"${len(word)}\r\n{word}\r\n" for word in words])
    return joined.encode() if joined.isascii() else _words(words)
