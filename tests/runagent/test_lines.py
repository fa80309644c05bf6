from __future__ import annotations

import itertools
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from runagent.agents.lines import LineSplitter


def split(*chunks: bytes, max_bytes: int = 1000) -> list[str]:
    splitter = LineSplitter(max_bytes)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return lines + list(splitter.finish())


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=6))
def test_where_the_reads_fall_changes_nothing(data: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    assert split(*pieces) == split(data)


def test_a_character_that_a_read_cuts_in_two_is_whole() -> None:
    euro = "\u20ac".encode()
    assert split(b"1 " + euro[:1], euro[1:] + b"\n") == ["1 \u20ac"]


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert split(b"a\xff\xfeb\r\nc") == ["a\ufffd\ufffdb", "c"]


def test_a_line_without_an_end_costs_no_more_than_its_bound() -> None:
    splitter = LineSplitter(64 * 1024)
    chunk = b"x" * 65_536
    tracemalloc.start()
    for _ in range(8_000):  # 500 MB
        assert not list(splitter.feed(chunk))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert list(splitter.feed(b"\nnext\n")) == ["x" * 65_536, "next"]
