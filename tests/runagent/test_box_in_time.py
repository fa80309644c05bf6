"""A box over the time of its job: what goes meanwhile, and what a kill left half done."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from runagent.process import EndState, ProcessSpec, run, system_runner
from runagent.sandbox import home_layer
from runagent.sandbox.bubblewrap import BoxedRunner, Bubblewrap
from runagent.sandbox.home_layer import doors_below, lay_home
from runagent.sandbox.mounts import hide
from runagent.sandbox.protocol import Box, Site
from tests.support.boxes import private_in, site_in
from tests.support.tools import require_tool

pytestmark = pytest.mark.linux


def test_what_goes_while_a_job_runs_does_not_keep_its_next_program_from_starting(
    tmp_path: Path,
) -> None:
    require_tool("bwrap")
    home, layer = tmp_path / "home", tmp_path / "layer"
    for folder in (home / ".ssh", layer):
        folder.mkdir(parents=True)
    passing, door = home / "passing", home / ".ssh" / "master"
    passing.touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(door))
        mounts = lay_home(str(home), str(layer))
        mounts += [mask for path in doors_below(str(home)) for mask in hide(path)]
    assert str(door) in [mount.target for mount in mounts]
    passing.unlink()
    door.unlink()
    spec = ProcessSpec(
        argv=("ls", "-A", str(home / ".ssh")), cwd="/", env={"PATH": os.defpath}, timeout_s=60
    )
    ended = run(BoxedRunner(system_runner(), "/usr/bin/bwrap", mounts, str(tmp_path)), spec)
    assert (ended.state, ended.exit_code, ended.stdout) == (EndState.EXITED, 0, b""), ended.why


def test_an_entry_that_goes_while_a_home_is_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, layer = tmp_path / "home", tmp_path / "layer"
    for folder in (home / ".ssh", layer):
        folder.mkdir(parents=True)
    entries = home_layer._entries

    def losing(folder: str) -> list[os.DirEntry[str]]:
        if not os.path.isdir(folder):
            return []
        passing = Path(folder) / "passing"
        passing.touch()
        found = entries(folder)
        passing.unlink()
        return found

    monkeypatch.setattr(home_layer, "_entries", losing)
    assert str(home / ".ssh" / "passing") not in doors_below(str(home))
    targets = [mount.target for mount in lay_home(str(home), str(layer))]
    assert targets == [str(home), str(home / ".ssh")]


def test_a_pack_that_was_half_put_into_the_store_is_put_there_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_tool("bwrap")
    site = site_in(tmp_path)
    sandbox = Bubblewrap(program="/usr/bin/bwrap", private=private_in(tmp_path / "own"), caches=())
    box = sandbox.enclose(site)
    _commit_in(box, site)

    def refuse(_half: str, _target: str) -> None:
        raise OSError(5, "as a kill would have it")

    with monkeypatch.context() as patched:
        patched.setattr("runagent.sandbox.git_import.os.rename", refuse)
        (risk,) = box.bring_home()
    assert risk.code == "commits_not_taken"
    store = Path(site.worktree.common_dir) / "objects" / "pack"
    (half,) = store.glob("tmp_*.pack")
    os.link(half, tmp_path / "half")  # keeps its number from being given again
    assert box.bring_home() == ()
    (pack,) = store.glob("*.pack")
    # Only root can write the old one again: it is read-only already.
    assert not pack.samefile(tmp_path / "half")


def _commit_in(box: Box, site: Site) -> None:
    script = "echo x > x.txt; git add -A; git -c user.name=a -c user.email=a@b commit -qm work"
    spec = ProcessSpec(
        argv=("bash", "-c", script), cwd=site.worktree.path, env=site.environment, timeout_s=60
    )
    outcome = run(box.around(system_runner()), spec)
    assert outcome.exit_code == 0, outcome.stderr
