"""Programs planted for a git command of the owner: started by plain git, never by a run, nor by any
verb that looks at what the run left; and no further job is started before a person has looked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runagent.shown_path import display_path
from tests.support.tricked_desk import MODES, TrickedDesk, script_worked
from tests.support.tricks_that_fire import FIRING, FiringTrick


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("firing", FIRING, ids=lambda firing: firing.trick.name)
def test_a_planted_program_is_started_by_plain_git_and_never_by_us(
    tmp_path: Path, firing: FiringTrick, mode: str
) -> None:
    desk, trick = TrickedDesk(tmp_path, mode), firing.trick
    assert desk.control(trick).fires(firing.command), "the control: plain git starts it"
    before = desk.shared_state()
    done = desk.run(trick.script)
    job = done.result["jobId"]
    for words in (("show", job), ("diff", job), ("remove", job, "--force")):
        desk.verb("worktrees", *words)
    assert desk.is_silent, "a program of the agent was run by the host"
    if mode == "none":
        assert script_worked(done), done.stderr
        shown = {display_path(path)[0] for path in trick.changed}
        assert shown <= set(done.result["agent_changed_files"])
        assert trick.codes <= done.codes
        assert done.result["needs_human_review"] or not trick.codes
    elif "git" in done.result["sandbox"]["enforces"]:
        assert desk.shared_state() == before
        assert "repo_quarantined" not in done.codes


def test_a_repository_with_a_planted_program_waits_for_a_person(tmp_path: Path) -> None:
    desk = TrickedDesk(tmp_path, "none")
    first = desk.run('git config core.hooksPath "$OUTSIDE"; echo x > a.txt')
    assert {"tampered", "repo_quarantined"} <= first.codes
    second = desk.run("echo x > b.txt")
    assert second.code == 2
    assert second.codes == {"repo_quarantined"}
    assert not second.result["worktreePath"]
    told = second.result["known_risks"][0]
    assert "core.hookspath" in told
    assert f"fleet-dispatch repo trust {desk.repo}" in told
    status = desk.verb("repo", "status", str(desk.repo), "--json")
    assert status.returncode == 2
    assert json.loads(status.stdout)["why"] == ["config: core.hookspath"]
    assert desk.verb("repo", "trust", str(desk.repo)).returncode == 2, "nobody was asked"
    assert desk.verb("repo", "trust", str(desk.repo), "--yes").returncode == 0
    third = desk.run("echo x > b.txt")
    assert third.codes == set()
    assert third.result["needs_human_review"] is False
