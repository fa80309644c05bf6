"""One request to a door and its answer: bounded in time and size, and in words when it fails.

Follows no redirect, reads no proxy and no netrc from the environment, and sends nothing but the
signed text. What a peer answers is not believed here: signatures are checked by the caller.
"""

from __future__ import annotations

import http.client
import os.path
import ssl
from dataclasses import dataclass
from typing import Any, Final

from contracts import limits
from contracts.errors import (
    AnswerLost,
    FleetError,
    InvalidRequest,
    Problem,
    Refused,
    Unavailable,
)
from dispatch.http.address import DoorAddress
from dispatch.http.bounded_socket import BoundedSocket

CONNECT_TIMEOUT_S: Final = 10.0
# Beyond the wait that was asked for: the answer of a busy host, and its way.
ANSWER_TIMEOUT_S: Final = 45.0
# The whole exchange beyond that wait, however slowly a peer drips: a door hangs up after 100 s.
EXCHANGE_TIMEOUT_S: Final = 120.0
_ANSWER_MAX_BYTES: Final = limits.ENVELOPE_MAX_BYTES
_CHUNK: Final = 65_536


@dataclass(frozen=True, slots=True)
class Reply:
    """What a peer answered, unchecked. `retry_after_s` is 0 where it named none."""

    status: int
    text: str
    retry_after_s: int = 0


def exchange(address: DoorAddress, path: str, text: str, *, wait_s: float = 0.0) -> Reply:
    """Post `text` to `path` of a door and return what it answers, also when that is a refusal.

    Raises Unavailable when nobody is reached in time, AnswerLost when the peer was and what it says
    did not come, Refused (`certificate`) when the peer is not the
    one that `address` names, and InvalidRequest for an unusable file of authorities.
    """
    connection: Any = _connection(address)  # its socket is ours from the first byte on
    is_reached = False
    try:
        connection.connect()
        is_reached = True
        connection.sock = BoundedSocket(
            connection.sock,
            idle_s=ANSWER_TIMEOUT_S + wait_s,
            total_s=EXCHANGE_TIMEOUT_S + wait_s,
        )
        headers = {"Content-Type": "application/json", "Connection": "close"}
        connection.request("POST", path, text.encode("utf-8"), headers)
        answer = connection.getresponse()
        data = _read(answer)
        retry = answer.getheader("Retry-After") or ""
        seconds = int(retry) if retry.isascii() and retry.isdigit() and len(retry) <= 4 else 0
        return Reply(answer.status, data.decode("utf-8", "replace"), seconds)
    except UnicodeError as error:  # a name that no resolver is asked for
        problem = Problem("target", "has no host name", "https://HOST:PORT, nothing else")
        raise InvalidRequest([problem]) from error
    except (OSError, http.client.HTTPException) as error:
        raise (_lost if is_reached else _translated)(error, address) from error
    finally:
        connection.close()


def _connection(address: DoorAddress) -> http.client.HTTPConnection:
    if not address.is_tls:
        return http.client.HTTPConnection(address.host, address.port, timeout=CONNECT_TIMEOUT_S)
    try:
        file = os.path.expanduser(address.cacert) if address.cacert else None
        context = ssl.create_default_context(cafile=file)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        problem = Problem("cacert", "cannot be used", "name a PEM file of certificates")
        raise InvalidRequest([problem]) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return http.client.HTTPSConnection(
        address.host, address.port, timeout=CONNECT_TIMEOUT_S, context=context
    )


def _read(answer: http.client.HTTPResponse) -> bytes:
    """Return the body; one beyond the bound is nobody's honest answer."""
    data = bytearray()
    while chunk := answer.read(_CHUNK):
        data += chunk
        if len(data) > _ANSWER_MAX_BYTES:
            raise http.client.HTTPException("too long")
    return bytes(data)


def _translated(error: Exception, address: DoorAddress) -> FleetError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refused(
            f"the certificate of {address.url} is not one that we trust: {error.verify_message}",
            code="certificate",
            remedy="name the authority that signed it with --cacert, or [hosts.NAME] cacert",
        )
    if isinstance(error, ssl.SSLError):
        return Unavailable(
            f"{address.url} does not speak TLS with us", remedy="is it http:// there?"
        )
    if isinstance(error, ConnectionRefusedError):
        return Unavailable(
            f"nobody listens at {address.url}",
            remedy="start the host with `fleet-dispatch listen --http …`, or correct the address",
        )
    if isinstance(error, TimeoutError):
        return Unavailable(f"{address.url} did not answer in time", remedy="send the same again")
    return Unavailable(
        f"{address.url} cannot be reached", remedy="is that its address, and is it there?"
    )


def _lost(error: Exception, address: DoorAddress) -> FleetError:
    if isinstance(error, TimeoutError):
        return AnswerLost(f"{address.url} did not answer in time", remedy="ask again")
    return AnswerLost(f"the exchange with {address.url} broke off", remedy="ask again")
