"""The launch barrier, with fake CLIs that mark the disk when they are launched. The control rows
are the point: "nothing was launched" proves something only where the same thing does launch."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contracts.clock import SystemClock
from contracts.errors import LaunchRefused
from contracts.run_agent import AgentName
from runagent.agents import AGENTS
from runagent.attempt import Launch, make_attempt
from runagent.launch import StagedPrompt, make_private_directory, stage_prompt
from runagent.ports import HostPorts
from runagent.process import system_runner
from tests.support.agents.bench import PROGRAMS, calls, install_fakes

NOBODY = 65_534


@pytest.fixture
def runtime_dir(tmp_path: Path) -> str:
    path = str(tmp_path / "runs" / "job")
    make_private_directory(path)
    return path


def launch(name: AgentName, bin_dir: Path, runtime_dir: str) -> tuple[Launch, HostPorts]:
    environment = {"PATH": f"{bin_dir}:{os.environ['PATH']}", "HOME": str(bin_dir)}
    agent = AGENTS[name]
    worktree = bin_dir.parent / "tree"
    worktree.mkdir()
    ports = HostPorts(
        runner=system_runner(),
        clock=SystemClock(),
        environment=environment,
        runtime_dir=runtime_dir,
    )
    order = Launch(
        job_id="j" * 16,
        agent=agent,
        preset=agent.default_preset(),
        program=str(bin_dir / PROGRAMS[name]),
        worktree=str(worktree),
        environment=environment,
        limit_s=60,
    )
    return order, ports


def gone(prompt: StagedPrompt) -> None:
    prompt.path.unlink()


def emptied(prompt: StagedPrompt) -> None:
    prompt.path.write_bytes(b"")


def another(prompt: StagedPrompt) -> None:
    prompt.path.write_text("Do something else.")


def linked(prompt: StagedPrompt) -> None:
    elsewhere = prompt.path.with_name("elsewhere")
    prompt.path.rename(elsewhere)
    prompt.path.symlink_to(elsewhere)


def a_fifo(prompt: StagedPrompt) -> None:
    prompt.path.unlink()
    os.mkfifo(prompt.path)


def a_folder(prompt: StagedPrompt) -> None:
    prompt.path.unlink()
    prompt.path.mkdir()


SPOILERS = [gone, emptied, another, linked, a_fifo, a_folder]


@pytest.mark.parametrize("name", AgentName)
@pytest.mark.parametrize("spoil", SPOILERS)
def test_an_agent_whose_prompt_cannot_be_read_back_is_not_launched(
    name: AgentName, spoil: Callable[[StagedPrompt], None], tmp_path: Path, runtime_dir: str
) -> None:
    fakes = install_fakes(tmp_path / "bin")
    order, ports = launch(name, fakes, runtime_dir)
    with stage_prompt("Do it.", runtime_dir) as prompt:
        spoil(prompt)
        with pytest.raises(LaunchRefused):
            make_attempt(order, prompt, 1, ports)
        if prompt.path.is_dir() and not prompt.path.is_symlink():
            prompt.path.rmdir()
    assert calls(fakes, PROGRAMS[name]) == []


@pytest.mark.parametrize("name", AgentName)
def test_control_the_same_launch_does_happen_on_a_readable_prompt(
    name: AgentName, tmp_path: Path, runtime_dir: str
) -> None:
    fakes = install_fakes(tmp_path / "bin")
    order, ports = launch(name, fakes, runtime_dir)
    with stage_prompt("Do it.", runtime_dir) as prompt:
        assert make_attempt(order, prompt, 1, ports).launched
    assert [call["prompt"] for call in calls(fakes, PROGRAMS[name])] == ["Do it."]


@pytest.mark.parametrize("program", sorted(PROGRAMS.values()))
def test_control_a_shell_that_pipes_the_read_launches_on_nothing(
    program: str, tmp_path: Path
) -> None:
    fakes = install_fakes(tmp_path / "bin")
    flags = "exec -" if program == "codex" else "-p ''" if program == "grok" else ""
    naive = f"cat {tmp_path}/missing | {fakes}/{program} {flags}"
    subprocess.run(["sh", "-c", naive], capture_output=True, timeout=30)
    assert len(calls(fakes, program)) == 1


def test_a_prompt_that_vanishes_between_two_attempts_stops_the_second(
    tmp_path: Path, runtime_dir: str
) -> None:
    fakes = install_fakes(tmp_path / "bin")
    order, ports = launch(AgentName.CODEX, fakes, runtime_dir)
    with stage_prompt("Do it.", runtime_dir) as prompt:
        make_attempt(order, prompt, 1, ports)
        prompt.path.unlink()
        with pytest.raises(LaunchRefused):
            make_attempt(order, prompt, 2, ports)
    assert len(calls(fakes, "codex")) == 1


def test_the_staged_prompt_is_its_owner_s_alone_and_is_gone_afterwards(runtime_dir: str) -> None:
    with stage_prompt("Ein Schlüssel: 🔑", runtime_dir) as prompt:
        assert stat.S_IMODE(prompt.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(Path(runtime_dir).stat().st_mode) == 0o700
        assert prompt.read_back() == "Ein Schlüssel: 🔑"
    assert os.listdir(runtime_dir) == []


def test_the_staged_prompt_is_gone_after_an_error_too(runtime_dir: str) -> None:
    with pytest.raises(KeyboardInterrupt), stage_prompt("x", runtime_dir):
        raise KeyboardInterrupt
    assert os.listdir(runtime_dir) == []


def test_what_a_crash_left_is_replaced_and_never_written_through(
    tmp_path: Path, runtime_dir: str
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    (Path(runtime_dir) / "prompt").symlink_to(precious)
    with stage_prompt("x", runtime_dir) as prompt:
        assert not prompt.path.is_symlink()
    assert precious.read_text() == "keep me"


def test_a_place_that_cannot_be_written_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(LaunchRefused):
        make_private_directory(str(file))
    with pytest.raises(LaunchRefused), stage_prompt("x", str(file)):
        raise AssertionError("unreachable")
    assert file.read_text() == ""


def test_a_runtime_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(LaunchRefused):
        make_private_directory(str(tmp_path / "link"))


def read_as(user: int, prompt: StagedPrompt) -> str:
    """Return what reading `prompt` back says to another user: in a child, which cannot go back."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(user)
            os.setuid(user)
            answer = prompt.read_back()
        except LaunchRefused as error:
            answer = f"refused: {error}"
        finally:
            os.write(writer, answer.encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        return file.read()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach: pytest's own are their owner's alone."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_prompt_that_this_user_may_not_read_is_refused_without_being_quoted(
    open_folder: Path,
) -> None:
    folder = open_folder / "runs"
    folder.mkdir(mode=0o755)
    with stage_prompt("secret brief", str(folder)) as prompt:
        prompt.path.chmod(0o644)
        assert read_as(NOBODY, prompt) == "secret brief"  # the control: the mode is what matters
        prompt.path.chmod(0o600)
        refused = read_as(NOBODY, prompt)
        assert refused.startswith("refused")
        assert "secret" not in refused
        prompt.path.chmod(0o644)
        folder.chmod(0o700)
        assert read_as(NOBODY, prompt).startswith("refused")
