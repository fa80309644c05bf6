from __future__ import annotations

from pathlib import Path

import pytest

from contracts.clock import ManualClock
from contracts.errors import InvalidRequest, KeysRefused
from dispatch.keyring import SenderKeyring
from dispatch.routing import plan_routes
from tests.dispatch.desk import sender_with_grants


@pytest.fixture
def ring(tmp_path: Path) -> SenderKeyring:
    return sender_with_grants(
        ("PC1", ["A"]), ("PC2", ["A", "B"]), clock=ManualClock(), folder=tmp_path / "keys"
    )


def test_each_target_gets_a_queue_and_an_audience_of_its_own(ring: SenderKeyring) -> None:
    routes = plan_routes(ring, "A", ["PC2", "PC1"])
    assert [(item.target, item.aud, item.queue_name) for item in routes] == [
        ("PC2", "host:PC2", "fd.lane.A@PC2"),
        ("PC1", "host:PC1", "fd.lane.A@PC1"),
    ]


def test_without_targets_the_lane_has_one_queue(ring: SenderKeyring) -> None:
    (route,) = plan_routes(ring, "B", None)
    assert (route.target, route.aud, route.queue_name) == ("", "lane:B", "fd.lane.B")


def test_a_lane_that_no_host_holds_a_key_for_is_refused(ring: SenderKeyring) -> None:
    with pytest.raises(KeysRefused, match=r"lane C .*keys grant HOST --lanes C"):
        plan_routes(ring, "C", None)


def test_every_target_without_a_grant_is_named(ring: SenderKeyring) -> None:
    with pytest.raises(KeysRefused, match=r"granted to PC1, PC9 .*keys grant PC1 --lanes B"):
        plan_routes(ring, "B", ["PC2", "PC1", "PC9"])


@pytest.mark.parametrize("targets", [[], ["PC1", "PC1"], ["a b"], [""], ["PC1", "../x"]])
def test_malformed_targets_are_refused(ring: SenderKeyring, targets: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="targets"):
        plan_routes(ring, "A", targets)


@pytest.mark.parametrize("lane", ["", "a b", "A/B", "A:B", "-A", "A" * 65])
def test_a_malformed_lane_is_refused(ring: SenderKeyring, lane: str) -> None:
    with pytest.raises(InvalidRequest, match="lane"):
        plan_routes(ring, lane, None)
