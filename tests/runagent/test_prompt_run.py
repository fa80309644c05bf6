"""The barrier of both lanes, in one table: a prompt that cannot be read back launches nothing, and
the same launch does happen on a readable one. Whatever is added to either lane stands in it, or a
test fails."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.clock import SystemClock
from contracts.errors import LaunchRefused
from contracts.prompt import Harness
from contracts.run_agent import AgentName
from runagent.agents import AGENTS
from runagent.attempt import Launch, make_attempt
from runagent.clis.prompt_lane import LANES, Asking
from runagent.governor import Admission, GovernorAnswer, OpenGovernor, Spent
from runagent.launch import StagedPrompt, make_private_directory, stage_prompt
from runagent.ports import HostPorts
from runagent.process import EndState, run, system_runner
from runagent.prompt_run import Answered, PromptOrder, run_prompt

Spoil = Callable[[StagedPrompt], None]
# Takes every word, notes that it was launched, and answers with what it was given.
CLI = """#!/bin/sh
echo "$0" >> "$(dirname "$0")/launched"
printf '%s\\n' "$@"
cat
"""
ROWS = [("run_agent", name.value) for name in AgentName] + [("prompt", h.value) for h in Harness]


def missing(prompt: StagedPrompt) -> None:
    prompt.path.unlink()


def emptied(prompt: StagedPrompt) -> None:
    prompt.path.write_bytes(b"")


def readable(_prompt: StagedPrompt) -> None:
    pass


def test_every_adapter_and_every_lane_stands_in_the_table() -> None:
    assert {name for lane, name in ROWS if lane == "run_agent"} == {n.value for n in AGENTS}
    assert {name for lane, name in ROWS if lane == "prompt"} == {h.value for h in LANES}


def install(folder: Path) -> Path:
    folder.mkdir()
    for name in ("codex", "claude", "agy", "gemini", "grok", "ollama"):
        program = folder / name
        program.write_text(CLI)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def launched(folder: Path) -> int:
    path = folder / "launched"
    return len(path.read_text().splitlines()) if path.exists() else 0


def environment(programs: Path) -> dict[str, str]:
    return {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(programs)}


def launch_agent(name: str, programs: Path, folder: Path, spoil: Spoil) -> None:
    agent = AGENTS[AgentName(name)]
    tree = folder.parent / "tree"
    tree.mkdir()
    make_private_directory(str(folder))
    order = Launch(
        job_id="j" * 16,
        agent=agent,
        preset=agent.default_preset(),
        program=str(programs / agent.executable),
        worktree=str(tree),
        environment=environment(programs),
        limit_s=60,
    )
    ports = HostPorts(
        runner=system_runner(),
        clock=SystemClock(),
        environment=order.environment,
        runtime_dir=str(folder),
    )
    with stage_prompt("Do it.", str(folder)) as prompt:
        spoil(prompt)
        make_attempt(order, prompt, 1, ports)


def order_of(name: str, programs: Path, folder: Path, prompt: str = "Do it.") -> PromptOrder:
    lane = LANES[Harness(name)]
    return PromptOrder(
        job_id="j" * 16,
        harness=Harness(name),
        prompt=prompt,
        program=str(programs / lane.program),
        command=(lane.program,),
        model="some:model" if name == "ollama" else "",
        variant="",
        environment=environment(programs),
        folder=str(folder),
        limit_s=60,
    )


def ask(order: PromptOrder, governor: OpenGovernor | None = None) -> Answered:
    return run_prompt(order, governor, lambda spec: run(system_runner(), spec))


@pytest.mark.parametrize(("lane", "name"), ROWS)
@pytest.mark.parametrize(
    ("spoil", "starts"), [(missing, 0), (emptied, 0), (readable, 1)], ids=lambda v: str(v)[:20]
)
def test_only_a_prompt_that_can_be_read_back_launches_a_cli(
    lane: str,
    name: str,
    spoil: Spoil,
    starts: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs, folder = install(tmp_path / "bin"), tmp_path / "job"

    def act() -> None:
        if lane == "run_agent":
            launch_agent(name, programs, folder, spoil)
            return
        spoil_between(spoil, monkeypatch)
        ask(order_of(name, programs, folder))

    if starts:
        act()
    else:
        with pytest.raises(LaunchRefused):
            act()
    assert launched(programs) == starts


def spoil_between(spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    """Act on the staged prompt between its staging and its reading back."""
    read_back = StagedPrompt.read_back

    def spoilt(prompt: StagedPrompt) -> str:
        spoil(prompt)
        return read_back(prompt)

    monkeypatch.setattr(StagedPrompt, "read_back", spoilt)


@pytest.mark.parametrize("harness", Harness)
@pytest.mark.parametrize("prompt", ["Do it.", "--help 'me' $(x)\n\"ü\""])
def test_the_prompt_arrives_whole_and_once_in_an_empty_folder(
    harness: Harness, prompt: str, tmp_path: Path
) -> None:
    programs = install(tmp_path / "bin")
    answered = ask(order_of(harness.value, programs, tmp_path / "job", prompt))
    assert answered.outcome is not None
    assert answered.outcome.state is EndState.EXITED
    assert answered.outcome.stdout.decode().count(prompt) == 1
    assert os.listdir(tmp_path / "job") == ["empty"]
    assert os.listdir(tmp_path / "job" / "empty") == []


@pytest.mark.parametrize("harness", Harness)
def test_no_lane_grants_a_permission_and_one_that_ignores_its_folder_is_told_it(
    harness: Harness,
) -> None:
    asking = Asking(command=("x",), prompt="hi", folder="/srv/empty", limit_s=60, model="m")
    words = " ".join(LANES[harness].argv(asking))
    for granted in ("bypass", "yolo", "always-approve", "acceptEdits", "full-access"):
        assert granted not in words
    assert "m" in words.split()
    if harness in (Harness.CODEX, Harness.GEMINI):
        assert "/srv/empty" in words


def test_gemini_cli_is_asked_in_agys_place() -> None:
    asking = Asking(
        command=("gemini",), prompt="-hi", folder="/e", limit_s=60, variant="gemini-cli"
    )
    assert LANES[Harness.GEMINI].argv(asking)[:2] == ("gemini", "-p=-hi")


class Gate(OpenGovernor):
    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.settled: list[Spent] = []

    def admit(self, _agent: AgentName, _job_id: str, _attempt: int, /) -> GovernorAnswer:
        return GovernorAnswer(self.admission, "said the gate")

    def settle(self, _agent: AgentName, _job_id: str, _attempt: int, spent: Spent, /) -> str:
        self.settled.append(spent)
        return ""


def test_the_governor_is_asked_before_anything_is_made(tmp_path: Path) -> None:
    programs = install(tmp_path / "bin")
    order = order_of("codex", programs, tmp_path / "job")
    denied = ask(order, Gate(Admission.DENIED))
    assert denied.outcome is None
    assert denied.denied is not None
    assert not (tmp_path / "job").exists()
    gate = Gate(Admission.MISSING)
    assert ask(order, gate).missing == "said the gate"
    assert gate.settled == [Spent(started=True)]
    assert launched(programs) == 1


def test_ollama_has_no_account_that_a_pool_could_count(tmp_path: Path) -> None:
    programs = install(tmp_path / "bin")
    order = order_of("ollama", programs, tmp_path / "job")
    assert ask(order, Gate(Admission.DENIED)).outcome is not None
