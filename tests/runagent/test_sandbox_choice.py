"""Which sandbox a host gets: what a probe believes, and what is refused."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path

import pytest

from contracts.errors import PolicyRefused, Unavailable
from contracts.sandbox import Capability, SandboxMode
from runagent import _landlock
from runagent.process import EndState, ProcessSpec, system_runner
from runagent.sandbox import canary
from runagent.sandbox.choice import SandboxSettings, choose_sandbox, try_mode
from runagent.sandbox.none import NoSandbox
from runagent.sandbox.probe import Ground, Probed, _our_process, probe
from runagent.sandbox.protocol import refuse_weaker, report_of
from tests.support.boxes import private_in, settings_in
from tests.support.tools import require_tool
from tests.support.unprivileged import open_folder, run_unprivileged

# --- the probe -------------------------------------------------------------------------------


def identity(spec: ProcessSpec, _ground: Ground) -> ProcessSpec:
    return spec


def test_a_probe_without_walls_says_that_the_canary_got_out(tmp_path: Path) -> None:
    probed = probe(SandboxMode.NONE, identity, system_runner(), str(tmp_path))
    assert not probed.works
    assert "wrote outside" in probed.fault
    assert probed.enforces == frozenset()
    assert list(tmp_path.iterdir()) == []


def test_a_probe_listens_where_no_descriptor_has_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runagent.sandbox.probe._DESCRIPTORS", str(tmp_path / "absent"))
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        probed = probe(SandboxMode.NONE, identity, system_runner(), short)
    assert "wrote outside" in probed.fault


def test_another_system_is_not_asked_for_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("ctypes.CDLL", None)  # fails if it is called
    assert _landlock.abi() == 0


@pytest.mark.linux
def test_a_process_of_the_box_with_our_number_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_tool("bwrap")
    began = _our_process()[1]
    assert began.isdigit()
    monkeypatch.setattr("runagent.sandbox.probe._our_process", lambda: ("1", began))
    settings = settings_in(tmp_path, "bwrap")
    probed = try_mode(SandboxMode.BUBBLEWRAP, settings, system_runner(), dict(os.environ))
    assert probed.works, probed.fault
    assert probed.why[Capability.PROCESSES] == ""


def test_a_canary_that_says_nothing_proves_nothing(tmp_path: Path) -> None:
    def mute(spec: ProcessSpec, _ground: Ground) -> ProcessSpec:
        return dataclasses.replace(spec, argv=("sh", "-c", "echo no walls here >&2; exit 1"))

    probed = probe(SandboxMode.BUBBLEWRAP, mute, system_runner(), str(tmp_path))
    assert "no walls here" in probed.fault


def test_a_canary_that_cannot_work_in_its_own_folder_is_no_success(tmp_path: Path) -> None:
    def jailed(spec: ProcessSpec, _ground: Ground) -> ProcessSpec:
        return dataclasses.replace(spec, argv=("echo", '{"works": false, "writes": false}'))

    probed = probe(SandboxMode.BUBBLEWRAP, jailed, system_runner(), str(tmp_path))
    assert "its own folder" in probed.fault


def test_a_daemon_that_goes_on_means_that_processes_are_not_held(tmp_path: Path) -> None:
    def haunted(spec: ProcessSpec, ground: Ground) -> ProcessSpec:
        report = '{"works": true}'
        # Writes on for as long as the probe listens; ended by its own clock.
        beat = f"for i in $(seq 40); do echo . >> {ground.tree}/beat; sleep 0.02; done"
        return dataclasses.replace(spec, argv=("sh", "-c", f"echo '{report}'; {beat}"))

    class Leaving:
        def start(self, spec: ProcessSpec) -> object:
            import subprocess

            child = subprocess.Popen(spec.argv, stdout=subprocess.PIPE)
            assert child.stdout is not None
            line = child.stdout.readline()

            class Left:
                pid = child.pid

                def wait(self) -> object:
                    from runagent.process import ProcessOutcome

                    return ProcessOutcome(state=EndState.EXITED, exit_code=0, why="", stdout=line)

            children.append(child)
            return Left()

    children: list = []  # type: ignore[type-arg]
    probed = probe(SandboxMode.BUBBLEWRAP, haunted, Leaving(), str(tmp_path))  # type: ignore[arg-type]
    for child in children:
        child.wait(timeout=30)
        child.stdout.close()
    assert probed.why[Capability.PROCESSES] == "a daemon outlived the run"


def test_a_probe_without_a_folder_says_so(tmp_path: Path) -> None:
    probed = probe(SandboxMode.NONE, identity, system_runner(), str(tmp_path / "absent"))
    assert "no folder for the probe" in probed.fault


@pytest.mark.parametrize("said", [b"", b"garbage", b"[1]", b'{"a":'])
def test_what_is_no_report_is_not_read_as_one(said: bytes) -> None:
    assert canary.read_report(said) is None


# --- the choice ------------------------------------------------------------------------------


@pytest.mark.linux
def test_auto_takes_landlock_where_there_is_no_bubblewrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    chosen = choose_sandbox(settings_in(tmp_path, "auto"), system_runner(), os.environ)
    assert chosen.sandbox.mode is SandboxMode.LANDLOCK
    assert [probed.mode.value for probed in chosen.tried] == ["bwrap", "landlock"]
    assert chosen.tried[0].fault == "bwrap is not on PATH"


@pytest.mark.linux
def test_a_bubblewrap_that_does_not_work_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    chosen = choose_sandbox(settings_in(tmp_path, "auto"), system_runner(), os.environ)
    assert chosen.sandbox.mode is SandboxMode.LANDLOCK
    assert "No permissions" in chosen.tried[0].fault
    with pytest.raises(Unavailable, match="No permissions") as refused:
        choose_sandbox(settings_in(tmp_path, "bwrap"), system_runner(), os.environ)
    assert "user namespaces" in refused.value.remedy


@pytest.mark.linux
def test_a_bubblewrap_that_only_runs_the_program_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(Unavailable, match="wrote outside"):
        choose_sandbox(settings_in(tmp_path, "bwrap"), system_runner(), os.environ)


@pytest.mark.linux
def test_a_named_sandbox_of_another_system_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as refused:
        choose_sandbox(settings_in(tmp_path, "seatbelt"), system_runner(), os.environ)
    assert "macOS" in refused.value.remedy


def test_none_is_none_and_says_so(tmp_path: Path) -> None:
    chosen = choose_sandbox(settings_in(tmp_path, "none"), system_runner(), os.environ)
    assert isinstance(chosen.sandbox, NoSandbox)
    assert chosen.tried == ()
    assert report_of(chosen.sandbox).enforces == ()
    probed = try_mode(SandboxMode.NONE, settings_in(tmp_path, "none"), system_runner(), os.environ)
    assert "rights of the host's user" in probed.why[Capability.KEYS]


def test_a_state_folder_that_cannot_be_made_stops_the_probe(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    private = dataclasses.replace(private_in(tmp_path), state_dir=str(tmp_path / "file" / "state"))
    settings = SandboxSettings(mode="auto", caches=None, private=private)
    probed = try_mode(SandboxMode.BUBBLEWRAP, settings, system_runner(), os.environ)
    assert "cannot be made" in probed.fault


def test_what_is_required_and_not_enforced_is_named() -> None:
    refuse_weaker(NoSandbox(), frozenset())
    with pytest.raises(PolicyRefused, match="keys, sockets") as refused:
        refuse_weaker(NoSandbox(), frozenset({Capability.SOCKETS, Capability.KEYS}))
    assert refused.value.code == "sandbox"


def test_a_finding_enforces_what_has_no_reason_against_it() -> None:
    probed = Probed(SandboxMode.LANDLOCK, "", {Capability.KEYS: "", Capability.GIT: "open"})
    assert (probed.works, probed.enforces) == (True, frozenset({Capability.KEYS}))


AS_NOBODY = """
import os, sys
from runagent.process import system_runner
from runagent.sandbox.choice import SandboxSettings, choose_sandbox
from runagent.sandbox.masks import Private
place = sys.argv[1]
private = Private(config_dir=place + "/c", keys_dir=place + "/c/k", state_dir=place + "/state")
settings = SandboxSettings(mode="auto", caches=None, private=private)
chosen = choose_sandbox(settings, system_runner(), os.environ)
for probed in chosen.tried:
    held = [str(each) for each in sorted(probed.enforces)]
    print(probed.mode.value, probed.works, probed.fault or held)
"""


@pytest.mark.linux
def test_a_user_without_rights_gets_the_same_walls_or_hears_why_not() -> None:
    with open_folder() as place:
        said = run_unprivileged(AS_NOBODY, str(place), home=place).splitlines()
    assert said[-1].partition(" ")[0] in ("bwrap", "landlock")
    assert "writes" in said[-1] and " True " in said[-1]
    for line in said[:-1]:  # user namespaces may be closed to such a user
        assert line.startswith("bwrap False ") and len(line) > len("bwrap False ")
