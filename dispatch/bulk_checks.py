"""What is checked of many payloads before the first of them is signed: each of them, and all
together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from contracts import limits
from contracts.envelope import Signer
from contracts.errors import InvalidRequest, Problem
from contracts.kinds import canonical_kind
from dispatch.enqueuing import check_ttl
from dispatch.idempotency import asked_text, check_same, checked_key
from dispatch.keyring import SenderKeyring
from dispatch.routing import Route
from dispatch.sent import SentJob, SentJobs
from dispatch.sent_keys import AskedOnce
from dispatch.signing import sign_job
from dispatch.sweeper import checked_give_up
from validation.admission import JobRequest, check_payload

BULK_MAX_PAYLOADS: Final = 10_000  # some 30 MB of a sender's memory with small payloads
BULK_MAX_CHARS: Final = 64 * 1024 * 1024  # of all payloads together
# A character takes six bytes at the most, as an escape.
_SURELY_SMALL_CHARS: Final = limits.PAYLOAD_MAX_BYTES // 8
_PROBLEMS_MAX: Final = 20  # that are named; a file of the wrong kind has one in each line


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedMany:
    """What a caller asks for; see `FleetClient.enqueue_many`. `places` are what errors call each
    payload."""

    payloads: Sequence[Mapping[str, object] | InvalidRequest]
    places: Sequence[str]
    kind: str
    lane: str
    targets: Sequence[str] | None
    ttl_s: int
    key: str | None
    give_up_after_s: float | None
    on_batch: Callable[[int], None] | None = None  # told how many payloads are done


class Item(NamedTuple):
    """One payload, its checked reading, and the key that it goes under, if there is one."""

    payload: Mapping[str, object]
    request: JobRequest
    once: AskedOnce | None


def checked_items(
    wanted: WantedMany, routes: Sequence[Route], keyring: SenderKeyring, sent: SentJobs
) -> list[Item]:
    """Return the payloads, each of them checked.

    Raises InvalidRequest naming each payload with its fields, 20 problems at most, and Refused
    (`key_reused`) where a key was used for another job.
    """
    _check_whole(wanted)
    items: list[Item] = []
    problems: list[Problem] = []
    for number, payload in enumerate(wanted.payloads, 1):
        if isinstance(payload, InvalidRequest):
            problems += payload.problems
            continue
        try:
            items.append(_checked_item(wanted, payload, number, routes, keyring))
        except InvalidRequest as error:
            place = wanted.places[number - 1]
            problems += [
                Problem(f"{place}: {each.field}", each.message, each.remedy)
                for each in error.problems
            ]
    if problems:
        raise InvalidRequest(named_problems(problems))
    asked = [item.once for item in items if item.once is not None]
    for once, held in zip(asked, sent.asked_under(asked), strict=True):
        if held is not None:
            check_same(held, once.asked, once.key)
    return items


def _checked_item(
    wanted: WantedMany,
    payload: Mapping[str, object],
    number: int,
    routes: Sequence[Route],
    keyring: SenderKeyring,
) -> Item:
    request = check_payload(payload, kind=wanted.kind, grammar="any")
    item = Item(payload, request, _once(wanted, payload, number, keyring.name))
    if _chars(payload) > _SURELY_SMALL_CHARS:  # is it too large once it is written?
        for route in routes:
            sign_wanted(keyring, route, wanted, item, now=0)
    return item


def named_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Return the first 20 of `problems`, and how many more there are."""
    rest = len(problems) - _PROBLEMS_MAX
    more = [Problem("payloads", f"have {rest} more problems", "mend these first")]
    return [*problems[:_PROBLEMS_MAX], *(more if rest > 0 else [])]


def sign_wanted(
    keyring: SenderKeyring,
    route: Route,
    wanted: WantedMany,
    item: Item,
    *,
    now: int,
    broker: str = "",
    signers: Sequence[Signer] | None = None,
) -> SentJob:
    """Return one of the wanted jobs, signed; see `sign_job`."""
    give_up = wanted.give_up_after_s
    return sign_job(
        keyring,
        route,
        item.payload,
        item.request,
        kind=canonical_kind(wanted.kind),
        iat=now,
        exp=now + wanted.ttl_s,
        give_up_at=None if give_up is None else int(now + give_up),
        broker=broker,
        signers=signers,
    )


def _check_whole(wanted: WantedMany) -> None:
    """Check what is said of all payloads, and their number and size."""
    check_ttl(wanted.ttl_s)
    if wanted.give_up_after_s is not None:
        checked_give_up(wanted.give_up_after_s)
    if wanted.key is not None:
        checked_key(f"{checked_key(wanted.key)}#{len(wanted.payloads)}")
    remedy = "send the rest with a second call"
    count, chars = len(wanted.payloads), sum(map(_chars, wanted.payloads))
    if count > BULK_MAX_PAYLOADS:
        message = f"are more than {BULK_MAX_PAYLOADS}"
        raise InvalidRequest(
            [Problem("payloads", message, f"{BULK_MAX_PAYLOADS} at most; {remedy}")]
        )
    if len(wanted.places) != count:
        message = f"are {len(wanted.places)} for {count} payloads"
        raise InvalidRequest([Problem("places", message, "one for each payload, or none at all")])
    if chars > BULK_MAX_CHARS:
        remedy = f"{BULK_MAX_CHARS} at most; {remedy}"
        raise InvalidRequest([Problem("payloads", f"have {chars} characters", remedy)])


def _chars(payload: object) -> int:
    """Return the length of all texts in a payload, which nearly all of it is."""
    if not isinstance(payload, Mapping):
        return 0
    return sum(len(value) for value in payload.values() if isinstance(value, str))


def _once(
    wanted: WantedMany, payload: Mapping[str, object], number: int, sender: str
) -> AskedOnce | None:
    if wanted.key is None:
        return None
    asked = asked_text(payload, kind=wanted.kind, lane=wanted.lane, targets=wanted.targets)
    return AskedOnce(sender, f"{wanted.key}#{number}", asked)
