"""Names that two machines must agree on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contracts import naming
from contracts.ids import is_name
from tests.golden.write_naming import GOLDEN, golden_text

_NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)


def test_every_shared_name_is_what_the_golden_file_says() -> None:
    assert golden_text() == GOLDEN.read_text(encoding="utf-8")


@given(lane=_NAMES, host=_NAMES, other=_NAMES)
def test_no_lane_has_the_queue_of_a_hosts_part_of_another(lane: str, host: str, other: str) -> None:
    assert is_name(other)
    assert naming.host_queue(lane, host) != naming.lane_queue(other)


@given(one=st.tuples(_NAMES, _NAMES), two=st.tuples(_NAMES, _NAMES))
def test_two_hosts_parts_never_share_a_queue(one: tuple[str, str], two: tuple[str, str]) -> None:
    assert (naming.host_queue(*one) == naming.host_queue(*two)) == (one == two)


@given(one=st.tuples(_NAMES, _NAMES), two=st.tuples(_NAMES, _NAMES))
def test_two_hosts_never_share_a_list_of_taken_jobs(
    one: tuple[str, str], two: tuple[str, str]
) -> None:
    first, second = (naming.taken_list(naming.lane_queue(q), h) for q, h in (one, two))
    assert (first == second) == (one == two)
