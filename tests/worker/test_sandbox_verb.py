"""`sandbox check`, and a listener whose configuration names a sandbox that does not work."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from contracts.sandbox import Capability
from runagent._cgroup import make_leaf, remove
from tests.support.fleet import Machine, place_program
from tests.support.tools import require_tool

pytestmark = pytest.mark.linux


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    return Machine(home, home / "bin", "redis://127.0.0.1:1/0", "HOSTA", sandbox="")


def configure(machine: Machine, text: str) -> None:
    folder = machine.home / "fleet"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config.toml").write_text(text)
    (folder / "config.toml").chmod(0o600)


def break_bubblewrap(machine: Machine) -> None:
    place_program(machine.home / "bin", "bwrap", "import sys; sys.exit('bwrap: not permitted')")


def test_it_says_of_each_capability_whether_it_is_enforced_and_why_not(machine: Machine) -> None:
    require_tool("bwrap")
    configure(machine, '[sandbox]\nmode = "auto"\n')
    found = machine.read_json("sandbox", "check")
    assert (found["configured"], found["mode"]) == ("auto", "bwrap")
    assert set(found["capabilities"]) == {str(each) for each in Capability}
    assert found["capabilities"]["keys"] == {"enforced": True, "why": ""}
    assert "stays open" in found["capabilities"]["network"]["why"]
    assert not found["modes"]["landlock"]["capabilities"]["sockets"]["enforced"]
    enders = found["processesEndedBy"]
    assert [enders[0], enders[-1]] == ["pid namespace", "subreaper"]
    trial = make_leaf("trial", os.getpid())
    remove(trial)
    assert ("cgroup" in enders) == bool(trial)
    said = machine.succeed("sandbox", "check")
    assert f"processes of a run are ended by {', '.join(enders)}" in said
    assert "mode      bwrap (configured: auto)" in said
    assert "landlock" in said


def test_where_bubblewrap_does_not_work_the_next_one_is_named_with_the_reason(
    machine: Machine,
) -> None:
    break_bubblewrap(machine)
    configure(machine, '[sandbox]\nmode = "auto"\n')
    found = machine.read_json("sandbox", "check")
    assert found["mode"] == "landlock"
    assert "not permitted" in found["modes"]["bwrap"]["why"]
    assert "bwrap     does not work: " in machine.succeed("sandbox", "check")


def test_a_named_one_that_does_not_work_is_exit_2_and_the_listener_does_not_start(
    machine: Machine,
) -> None:
    break_bubblewrap(machine)
    configure(machine, '[sandbox]\nmode = "bwrap"\n')
    checked = machine.run("sandbox", "check", "--json")
    assert checked.returncode == 2
    assert json.loads(checked.stdout)["mode"] is None
    assert "does not work here" in machine.run("sandbox", "check").stdout
    listening = machine.run("listen", "--lane", "L")
    assert listening.returncode == 2
    assert "bwrap does not work here" in listening.stderr
    assert "install bubblewrap" in listening.stderr
    assert "Traceback" not in listening.stderr


def test_none_enforces_nothing_and_one_of_another_system_is_no_choice(machine: Machine) -> None:
    configure(machine, '[sandbox]\nmode = "none"\n')
    found = machine.read_json("sandbox", "check")
    assert found["mode"] == "none"
    assert not any(each["enforced"] for each in found["capabilities"].values())
    configure(machine, '[sandbox]\nmode = "seatbelt"\n')
    assert machine.run("sandbox", "check").returncode == 2
    configure(machine, '[sandbox]\nmode = "chroot"\n')
    refused = machine.run("sandbox", "check")
    assert refused.returncode == 2
    assert "sandbox.mode" in refused.stderr
