"""What a canary proved is recalled for minutes, and only where nothing is other than it was."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.sandbox import Capability, SandboxMode
from runagent.process import ProcessSpec, RunningProcess, system_runner
from runagent.sandbox import proof
from runagent.sandbox.bubblewrap import Bubblewrap
from runagent.sandbox.choice import SandboxSettings, choose_sandbox
from runagent.sandbox.probe import Probed
from tests.support.boxes import settings_in
from tests.support.tools import require_tool

NEEDED = {Capability.WRITES, Capability.KEYS, Capability.PROCESSES}


class Counting:
    """The real runner, and how often it was asked for something."""

    def __init__(self) -> None:
        self._inner = system_runner()
        self.starts = 0

    def start(self, spec: ProcessSpec) -> RunningProcess:
        self.starts += 1
        return self._inner.start(spec)


class Host:
    """A host whose runs choose their sandbox."""

    def __init__(self, folder: Path) -> None:
        self.settings: SandboxSettings = settings_in(folder, "auto")
        self.folder = Path(self.settings.private.state_dir)
        self.environment = dict(os.environ)

    @property
    def file(self) -> Path:
        return self.folder / "sandbox-proof.json"

    def canaries(self, *, recalls: bool = True) -> int:
        """Choose as a run does; return how many canaries that took."""
        runner = Counting()
        chosen = choose_sandbox(self.settings, runner, self.environment, recalls=recalls)
        assert isinstance(chosen.sandbox, Bubblewrap)
        assert chosen.sandbox.enforces >= NEEDED
        assert [probed.mode for probed in chosen.tried] == [SandboxMode.BUBBLEWRAP]
        return runner.starts


@pytest.fixture
def host(tmp_path: Path) -> Host:
    require_tool("bwrap")
    return Host(tmp_path)


def test_the_second_run_starts_no_canary(host: Host) -> None:
    assert host.canaries() == 1
    assert host.canaries() == 0


def test_whoever_asks_for_a_look_gets_one_and_what_it_saw_is_recalled(host: Host) -> None:
    assert host.canaries(recalls=False) == 1
    assert host.canaries(recalls=False) == 1
    assert host.canaries() == 0


def test_the_proof_is_nobody_elses_to_read_or_write(host: Host) -> None:
    host.canaries()
    assert host.file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in host.folder.iterdir()] == [host.file.name]


def _age(host: Host) -> None:
    told = json.loads(host.file.read_text())
    host.file.write_text(json.dumps({**told, "at": time.monotonic() - proof.LASTS_S - 1}))


def _postdate(host: Host) -> None:
    told = json.loads(host.file.read_text())
    host.file.write_text(json.dumps({**told, "at": time.monotonic() + 3600}))


def _forge_one_more(host: Host) -> None:
    told = json.loads(host.file.read_text())
    host.file.write_text(json.dumps({**told, "why": {"keys": ""}}))


def _name_another_mode(host: Host) -> None:
    told = json.loads(host.file.read_text())
    host.file.write_text(json.dumps({**told, "mode": "landlock"}))


def _link(host: Host) -> None:
    other = host.folder.parent / "planted.json"
    host.file.rename(other)
    host.file.symlink_to(other)


def _second_name(host: Host) -> None:
    os.link(host.file, host.folder.parent / "planted.json")


def _more_caches(host: Host) -> None:
    private = host.settings.private
    host.settings = SandboxSettings(mode="auto", caches=(".cache",), private=private)


def _named_by_the_host(host: Host) -> None:
    private = host.settings.private
    host.settings = SandboxSettings(mode="bwrap", caches=None, private=private)


def _another_temporary_folder(host: Host) -> None:
    folder = host.folder.parent / "temporary"
    folder.mkdir()
    host.environment["TMPDIR"] = str(folder)


def _another_bwrap(host: Host) -> None:
    folder = host.folder.parent / "bin"
    folder.mkdir()
    real = require_tool("bwrap")
    (folder / "bwrap").write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    (folder / "bwrap").chmod(0o755)
    host.environment["PATH"] = f"{folder}{os.pathsep}{host.environment['PATH']}"


@pytest.mark.parametrize(
    "change",
    [
        _age,
        _postdate,
        _forge_one_more,
        _name_another_mode,
        _link,
        _second_name,
        _more_caches,
        _named_by_the_host,
        _another_temporary_folder,
        _another_bwrap,
        lambda host: host.file.write_text("{"),
        lambda host: host.file.write_text("[]"),
        lambda host: host.file.chmod(0o644),
        lambda host: host.file.unlink(),
        lambda host: host.folder.chmod(0o777),
    ],
)
def test_a_canary_is_started_again_when_anything_is_other_than_it_was(
    host: Host, change: Callable[[Host], object]
) -> None:
    host.canaries()
    change(host)
    assert host.canaries() == 1


@pytest.mark.parametrize("name", ["boot_id", "max_user_namespaces", "mountinfo"])
def test_another_boot_or_another_permission_is_another_circumstance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    told = tmp_path / name
    told.write_text("one")
    others = [path for path in proof._SYSTEM if not path.endswith(name)]
    monkeypatch.setattr(proof, "_SYSTEM", (str(told), *others))
    before = proof.circumstances("/bin/true", (), ())
    assert proof.circumstances("/bin/true", (), ()) == before
    told.write_text("two")
    assert proof.circumstances("/bin/true", (), ()) != before


def test_a_program_that_was_replaced_in_its_place_is_another_one(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("one")
    before = proof.circumstances(str(program), (), ())
    found = program.stat()
    program.write_text("two")
    os.utime(program, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert proof.circumstances(str(program), (), ()) != before


@pytest.mark.parametrize("missing", sorted(NEEDED))
def test_a_box_that_does_not_hide_the_proof_is_never_remembered(
    tmp_path: Path, missing: Capability
) -> None:
    tmp_path.chmod(0o700)
    whole = Probed(SandboxMode.BUBBLEWRAP, "", dict.fromkeys(Capability, ""))
    proof.keep(str(tmp_path), whole, "key")
    assert proof.recall(str(tmp_path), SandboxMode.BUBBLEWRAP, "key") == whole
    weak = Probed(SandboxMode.BUBBLEWRAP, "", {**whole.why, missing: "it was reached"})

    proof.keep(str(tmp_path), weak, "key")

    assert proof.recall(str(tmp_path), SandboxMode.BUBBLEWRAP, "key") is None
    assert list(tmp_path.iterdir()) == []


def test_a_trial_that_failed_takes_the_older_proof_away(tmp_path: Path) -> None:
    whole = Probed(SandboxMode.BUBBLEWRAP, "", dict.fromkeys(Capability, ""))
    proof.keep(str(tmp_path), whole, "key")
    proof.keep(str(tmp_path), Probed(SandboxMode.BUBBLEWRAP, "it broke", {}), "key")
    assert proof.recall(str(tmp_path), SandboxMode.BUBBLEWRAP, "key") is None
