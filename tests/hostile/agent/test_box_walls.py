"""What an agent cannot do in a box, for real: every act that a box stops is first shown to work
without one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from contracts.run_agent import AgentName, Status
from runagent.agents.state import AGENT_STATE, empty_form
from tests.support.boxes import BoxBench, Make, knock, listening

pytestmark = pytest.mark.linux

WORK = "echo work > new.txt; git add -A; git commit -qm work\n"


def did(bench: BoxBench, act: str, *, agent: str = "claude") -> bool:
    """Say whether the shell command `act` of an agent worked."""
    result = bench.act(f"if ( {act} ); then echo IT-WORKED; fi\n", agent=agent)
    return "IT-WORKED" in bench.said(result)


# what is tried (a shell command; names in braces are the bench's), and the modes that stop it
FORBIDDEN = {
    "read a key": ("grep secret {fleet}/keys/alice.key", "bwrap landlock"),
    "read our settings": ("grep secret {fleet}/config.toml", "bwrap landlock"),
    "read our state": ("grep secret {state}/journal.sqlite3", "bwrap landlock"),
    "read a staged prompt of the run": ("cat {state}/runs/*/prompt", "bwrap landlock"),
    "write a key": ("echo x > {fleet}/keys/mine.key && test -e {fleet}/keys/mine.key", "bwrap"),
    "write a policy": ("echo x > {fleet}/policy.toml", "bwrap landlock"),
    "write the journal": ("echo x >> {state}/journal.sqlite3", "bwrap landlock"),
    "change the shared config": ("echo x >> {repo}/.git/config", "bwrap landlock"),
    "change it with git": ("git config core.fsmonitor /bin/true", "bwrap landlock"),
    "replace the shared config": (
        "cp {repo}/.git/config c && mv c {repo}/.git/config",
        "bwrap landlock",
    ),
    "add a hook": ("echo x > {repo}/.git/hooks/pre-commit", "bwrap landlock"),
    "replace the folder of hooks": ("mv {repo}/.git/hooks {repo}/.git/h", "bwrap landlock"),
    "change shared attributes": ("echo x > {repo}/.git/info/attributes", "bwrap landlock"),
    "rewrite the pointer": ("echo x > .git", "bwrap"),
    "remove the pointer": ("rm .git", "bwrap"),
    "put a repository in its place": ("mv .git g && git init -q .", "bwrap"),
    "remove the objects": ("rm -r {repo}/.git/objects/??", "bwrap"),
    "write a file of the main checkout": ("echo x > {repo}/README.md", "bwrap landlock"),
    "write beside the repository": ("echo x > {outside}/x", "bwrap landlock"),
    "write a start file of the shell": ("echo x >> $HOME/.profile", "bwrap landlock"),
    "change the agent's settings": ("echo x > $HOME/.claude/settings.json", "bwrap"),
    "replace the agent's settings": (
        "echo x > $HOME/.claude/n && mv $HOME/.claude/n $HOME/.claude/settings.json",
        "bwrap",
    ),
    "make settings that are not there": (
        "echo x > $HOME/.claude/settings.local.json",
        "bwrap",
    ),
    "add a command for the agent": ("echo x > $HOME/.claude/commands/c.md", "bwrap"),
    "add a hook for the agent": ("echo x > $HOME/.claude/hooks/h.sh", "bwrap"),
    "see the host's processes": ("test -e /proc/{pid}", "bwrap"),
    "signal the host": ("kill -0 {pid}", "bwrap landlock"),
    "read the host's environment": ("cat /proc/{pid}/environ > /dev/null", "bwrap"),
    "write a cache that starts programs": (
        "mkdir -p $HOME/.cache/pre-commit && echo x > $HOME/.cache/pre-commit/p",
        "bwrap",
    ),
}


@pytest.mark.parametrize("act", FORBIDDEN)
@pytest.mark.parametrize("mode", ["bwrap", "landlock"])
def test_what_a_box_stops_works_without_one(make: Make, mode: str, act: str) -> None:
    command, stops = FORBIDDEN[act]
    if mode not in stops:
        return  # that this mode lets it through is another test's claim
    for name in ("none", mode):
        bench = make(name)
        (bench.home / ".profile").write_text("mine\n")
        (bench.home / ".cache" / "pre-commit").mkdir(parents=True)
        for folder in ("commands", "hooks"):
            (bench.home / ".claude" / folder).mkdir(parents=True)
        (bench.home / ".claude" / "settings.json").write_text('{"mine": true}')
        before = _state(bench)
        text = command.format(
            fleet=bench.fleet,
            state=bench.folder / "state",
            repo=bench.repo,
            outside=bench.outside,
            pid=os.getpid(),
        )
        worked = did(bench, text)
        assert worked is (name == "none"), f"in {name}: {bench.folder}"
        if name != "none":
            assert _state(bench) == before


def _state(bench: BoxBench) -> dict[str, str]:
    """Return the bytes of everything that no agent may change."""
    guarded = [bench.repo / "README.md", bench.home / ".profile", bench.folder / "outside"]
    folders = [
        bench.fleet,
        bench.repo / ".git" / "hooks",
        bench.home / ".claude" / "commands",
        bench.home / ".claude" / "hooks",
        bench.home / ".cache" / "pre-commit",
    ]
    guarded += [path for folder in folders for path in sorted(folder.rglob("*"))]
    guarded += [bench.repo / ".git" / "config", bench.home / ".claude" / "settings.json"]
    return {
        str(path): path.read_bytes().hex() if path.is_file() else str(sorted(path.iterdir()))
        for path in guarded
        if path.exists()
    }


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "grok"])
def test_no_agent_can_make_settings_that_its_owner_does_not_have(make: Make, agent: str) -> None:
    state = AGENT_STATE[AgentName(agent)]
    files = [name for name in state.guarded if empty_form(name) is not None]
    folders = [name for name in state.guarded if empty_form(name) is None]
    acts = [f"echo planted > $HOME/{state.folder}/{name}" for name in files]
    acts += [f"echo planted > $HOME/{state.folder}/{name}/x" for name in folders]
    acts += [
        f"rm -rf $HOME/{state.folder}/{name}; test ! -e $HOME/{state.folder}/{name}"
        for name in state.guarded
    ]
    bench = make("bwrap")
    assert not did(bench, " || ".join(f"( {act} )" for act in acts), agent=agent)
    for name in state.guarded:
        path = bench.home / state.folder / name
        content = empty_form(name)
        assert list(path.iterdir()) == [] if content is None else path.read_bytes() == content


def test_it_cannot_reach_key_agents_engines_and_buses(make: Make, tmp_path: Path) -> None:
    for mode in ("none", "bwrap"):
        bench = make(mode)
        runtime = bench.folder / "runtime"
        with (
            listening(bench.folder / "ssh" / "agent.1") as ssh,
            listening(bench.folder / "docker.sock") as docker,
            listening(runtime / "bus") as bus,
            listening(runtime / "podman" / "podman.sock") as podman,
            listening(bench.home / ".gnupg" / "S.gpg-agent") as gpg,
            listening(bench.home / ".docker" / "run" / "docker.sock") as desktop,
        ):
            bench.environment |= {
                "SSH_AUTH_SOCK": str(ssh),
                "DOCKER_HOST": f"unix://{docker}",
                "DBUS_SESSION_BUS_ADDRESS": f"unix:path={bus},guid=1",
                "XDG_RUNTIME_DIR": str(runtime),
            }
            doors = (ssh, docker, bus, podman, gpg, desktop)
            acts = "".join(
                f"if {knock(door)}; then echo REACHED-{number}; fi\n"
                for number, door in enumerate(doors)
            )
            said = bench.said(bench.act(acts))
            reached = [number for number in range(len(doors)) if f"REACHED-{number}" in said]
        assert reached == ([] if mode == "bwrap" else list(range(len(doors)))), said


@pytest.mark.parametrize(
    "act",
    [
        "unshare -Urm mount -o remount,rw,bind {repo}",
        "unshare -Urm umount {fleet}",
        "unshare -Urm umount -l {fleet}",
        "mount -o remount,rw,bind {repo}",
        "mknod disk b 8 0",
        "chroot / true",
    ],
)
def test_it_cannot_take_a_wall_away(make: Make, act: str) -> None:
    bench = make("bwrap")
    text = act.format(repo=bench.repo, fleet=bench.fleet)
    assert not did(bench, f"{text} && grep secret {bench.fleet}/keys/alice.key || {text}")
    said = bench.said(bench.act("find /dev -type b; id -u; grep CapEff /proc/self/status\n"))
    assert "/dev/" not in said
    assert "CapEff:\t0000000000000000" in said


@pytest.mark.parametrize("mode", ["bwrap", "landlock"])
def test_it_has_no_capability_even_as_root(make: Make, mode: str) -> None:
    """The control: without a box it has what the test has."""
    look = "grep CapEff: /proc/self/status; "
    own = re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    assert own is not None
    bare = make("none")
    assert own.group(1) in bare.said(bare.act(look))
    bench = make(mode)
    assert "0000000000000000" in bench.said(bench.act(look))


def test_it_cannot_turn_a_knob_of_the_kernel(make: Make) -> None:
    """Root may write some without any capability: a program for core dumps runs on the host."""
    knobs = ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/vm/drop_caches")
    tries = "".join(f"( : >> /proc/{each} ) && echo OPEN\n" for each in knobs)
    bench = make("bwrap")
    said = bench.said(bench.act(tries + "echo TRIED\n"))
    assert "TRIED" in said and "OPEN" not in said


def test_a_repository_in_a_hidden_place_is_refused_and_says_where(make: Make) -> None:
    for mode in ("bwrap", "landlock"):
        bench = make(mode)
        hidden = bench.fleet / "repo"
        os.rename(bench.repo, hidden)
        result = bench.act(WORK, repo=str(hidden))
        assert result.status is Status.FAILED
        assert [risk.code for risk in result.risks] == ["repo_masked"]
        assert str(bench.fleet) in result.summary
        assert result.worktreePath == ""
        assert not (hidden.parent / "repo-agents").exists()
