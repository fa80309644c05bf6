"""Watching keys and reading them, in one round trip: redis-py itself takes one for each command.

What is read is read after the watch began, so a transaction that succeeds found it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ConnectionError as ConnectionBroke
from redis.exceptions import TimeoutError as AnswerTookTooLong
from redis.exceptions import WatchError

from dispatch.queue.packed_jobs import answer_of


def watch_and_read(
    pipe: Any, watched: Sequence[str], commands: Sequence[tuple[str, ...]]
) -> list[Any]:
    """Watch keys on the new pipeline `pipe`, and return the broker's answer to each of `commands`.

    Raises redis's errors; WatchError when the connection broke, and all is to be done anew.
    """
    connection = pipe.connection = pipe.connection_pool.get_connection()
    packed = connection.pack_commands([("WATCH", *watched), *commands])
    pipe.watching = True  # from here on the pipeline's end is the watch's end
    try:
        connection.send_packed_command(packed)
        answers = [answer_of(connection) for _ in range(1 + len(commands))]
    except (ConnectionBroke, AnswerTookTooLong, OSError) as error:
        connection.disconnect()  # and with it the watch
        pipe.watching = False
        if isinstance(error, ConnectionBroke):
            raise WatchError("the connection broke") from error
        raise
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers[1:]
