"""A disk below the host's floor: nothing is started, and the reason is a typed one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contracts.errors import RepositoryRefused
from contracts.run_agent import Status
from runagent.disk_floor import free_bytes, refuse_below_floor
from runagent.trees.worktree_options import WorktreeOptions
from tests.support.agents.bench import Bench
from worker.runs.outcome import was_declined

MORE_THAN_ANY_DISK = 2**53 - 1


def test_the_volume_of_a_folder_that_is_not_there_yet_is_that_of_the_nearest_one(
    tmp_path: Path,
) -> None:
    assert free_bytes(str(tmp_path / "not" / "yet")) is not None
    assert free_bytes(os.sep) is not None


def test_without_a_floor_nothing_is_measured_and_above_it_nothing_is_refused(
    tmp_path: Path,
) -> None:
    refuse_below_floor({"worktrees": str(tmp_path)}, 0)
    refuse_below_floor({"worktrees": str(tmp_path)}, 1)


def test_the_refusal_names_the_place_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RepositoryRefused, match="worktrees gc") as caught:
        refuse_below_floor({"state folder": str(tmp_path)}, MORE_THAN_ANY_DISK)
    assert caught.value.code == "disk_floor"
    assert str(tmp_path) in caught.value.message


def test_below_the_floor_no_agent_starts_and_another_host_may_take_the_job(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    options = WorktreeOptions(disk_floor_bytes=MORE_THAN_ANY_DISK)
    result = bench.run(ports={"worktree": options})
    assert result.status is Status.FAILED
    assert [risk.code for risk in result.risks] == ["disk_floor"]
    assert "free bytes" in result.summary
    assert was_declined(result)
    assert bench.calls("claude") == []
    assert bench.is_untouched()
    assert not bench.runtime_dir(result.jobId).exists()
