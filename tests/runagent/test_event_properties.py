"""However a CLI's output is cut on its way here, and whatever junk stands between its lines, the
same events come out."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.events import Event
from contracts.run_agent import AgentName
from runagent.agents import AGENTS
from runagent.agents.reading import Reading
from tests.support.replay import RECORDINGS

SAMPLES = [
    ("claude", "ll-interrupt"),
    ("claude", "429-retries1-sj"),
    ("codex", "429usage"),
    ("codex", "bg"),
    ("gemini", "perm-auto_edit"),
    ("gemini", "429"),
    ("grok", "write"),
    ("grok", "perm-dontask"),
]


def recording(agent: str, name: str) -> dict[str, bytes]:
    found: dict[str, Any] = json.loads((RECORDINGS / agent / f"{name}.json").read_text("utf-8"))
    return {stream: "".join(found[stream]).encode() for stream in ("stdout", "stderr")}


class Heard:
    """The events and the account of one reading."""

    def __init__(self, agent: str, pieces: list[tuple[str, bytes]]) -> None:
        self.events: list[Event] = []
        reading = Reading(AGENTS[AgentName(agent)], tell=self.events.append, monotonic=lambda: 0.0)
        for stream, piece in pieces:
            reading.take(stream, piece)
        reading.finish()
        self.reading = reading

    @property
    def account(self) -> tuple[object, ...]:
        held = self.reading
        return (
            [event.model_dump() for event in self.events],
            held.session_id,
            held.usage,
            held.said,
            held.unknown,
            list(held.errors),
            list(held.denials),
            held.turn_failed,
            list(held.plain["stderr"]),
        )


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@pytest.mark.parametrize(("agent", "name"), SAMPLES)
@settings(max_examples=25, deadline=None)
@given(
    out=st.lists(st.integers(0, 100_000), max_size=8),
    err=st.lists(st.integers(0, 100_000), max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_any_cut_and_any_interleaving_give_the_same_events(
    agent: str, name: str, out: list[int], err: list[int], order: Any
) -> None:
    streams = recording(agent, name)
    whole = Heard(agent, [("stdout", streams["stdout"]), ("stderr", streams["stderr"])])
    queues = {"stdout": cut(streams["stdout"], out), "stderr": cut(streams["stderr"], err)}
    pieces = []
    while any(queues.values()):
        stream = order.choice([name for name, queue in queues.items() if queue])
        pieces.append((stream, queues[stream].pop(0)))
    assert Heard(agent, pieces).account == whole.account


JUNK = st.one_of(
    st.binary(max_size=80).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b"")),
    st.sampled_from(
        [
            b'{"type":',
            b'{"type":"a kind from the future","data":[1,2]}',
            b"[[[[[[",
            b"null",
            b'{"type":null}',
            b"\xff\xfe{}",
            b'{"type":"\\ud800"}',
            b"{" * 2_000,
        ]
    ),
)


@pytest.mark.parametrize(("agent", "name"), SAMPLES)
@settings(max_examples=25, deadline=None)
@given(junk=st.lists(st.tuples(st.integers(0, 1_000), JUNK), max_size=6))
def test_junk_between_the_lines_changes_no_event(
    agent: str, name: str, junk: list[tuple[int, bytes]]
) -> None:
    streams = recording(agent, name)
    lines = streams["stdout"].split(b"\n")
    clean = Heard(agent, [("stdout", streams["stdout"])])
    for place, line in junk:
        lines.insert(place % len(lines), line)
    heard = Heard(agent, [("stdout", b"\n".join(lines))])
    assert [event.model_dump() for event in heard.events] == [
        event.model_dump() for event in clean.events
    ]
    assert heard.reading.usage == clean.reading.usage


@pytest.mark.parametrize(("agent", "name"), SAMPLES)
@settings(max_examples=25, deadline=None)
@given(length=st.integers(0, 100_000))
def test_output_that_ends_anywhere_is_the_beginning_of_the_whole(
    agent: str, name: str, length: int
) -> None:
    """A CLI that is killed between two bytes: nothing is made up, and nothing is read twice."""
    data = recording(agent, name)["stdout"]
    whole = [event.model_dump() for event in Heard(agent, [("stdout", data)]).events]
    part = data[: length % (len(data) + 1)]
    found = [event.model_dump() for event in Heard(agent, [("stdout", part)]).events]
    kept = len(found) if part.endswith(b"\n") else max(0, len(found) - 1)
    texts = [item for item in found[:kept] if item["kind"] != "text"]
    assert texts == [item for item in whole if item["kind"] != "text"][: len(texts)]
