"""The parts of the sandboxes one by one: what is hidden, what is shown, what a probe believes."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.errors import CouldNotCheck, RepositoryRefused
from contracts.run_agent import AgentName
from runagent.agents.state import AGENT_STATE
from runagent.process import ProcessSpec, run, system_runner
from runagent.sandbox import seatbelt
from runagent.sandbox.bubblewrap import BoxedRunner, Bubblewrap
from runagent.sandbox.git_import import sweep
from runagent.sandbox.git_layer import copy_plain_files
from runagent.sandbox.home_layer import cache_mounts, guard_settings, real_home, state_folder
from runagent.sandbox.landlock import Landlock
from runagent.sandbox.masks import Private, doors, refuse_hidden
from runagent.sandbox.mounts import Kind, Mount, arguments, ground, hide, is_inside
from runagent.sandbox.paths import carve
from runagent.sandbox.programs import program_mounts
from runagent.sandbox.protocol import Site
from runagent.sandbox.seatbelt import Seatbelt
from tests.support.boxes import private_in, site_in
from tests.support.repositories import git, make_repository, prepare

# --- what is hidden and what is shown ----------------------------------------------------------


def test_the_doors_that_the_host_s_environment_names_are_found(tmp_path: Path) -> None:
    found = doors(
        {
            "SSH_AUTH_SOCK": "/s/ssh",
            "DOCKER_HOST": "unix:///s/docker",
            "CONTAINER_HOST": "tcp://127.0.0.1:1",
            "DBUS_SESSION_BUS_ADDRESS": "unix:abstract=/tmp/x;unix:guid=1,path=/s/bus;tcp:host=h",
            "GPG_AGENT_INFO": "/s/gpg:1:1",
            "XDG_RUNTIME_DIR": "relative",
        },
        str(tmp_path),
    )
    assert [door for door in found if door.startswith("/s/")] == [
        *("/s/ssh", "/s/gpg", "/s/docker", "/s/bus"),
    ]
    assert doors({}, "") == [door for door in doors({}, str(tmp_path)) if "var" in door]


def test_a_settings_folder_above_the_home_is_hidden_in_parts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("keys", "state"):
        (home / name).mkdir(parents=True)
    private = Private(
        config_dir=str(home), keys_dir=str(home / "keys"), state_dir=str(home / "state")
    )
    hidden = private.hidden(str(home))
    assert str(home) not in hidden
    assert {str(home / name) for name in ("config.toml", "policy.toml", "keys", "state")} <= {
        *hidden
    }
    assert private.hidden("") == [str(home)]


def test_only_what_is_there_can_be_hidden(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("file")
    assert hide(str(tmp_path / "absent")) == []
    assert hide(str(tmp_path / "dangling")) == []
    assert hide(str(tmp_path)) == [Mount(Kind.EMPTY, str(tmp_path))]
    for name in ("file", "link"):
        null = Mount(Kind.READ_ONLY, str(tmp_path / "file"), os.devnull)
        assert hide(str(tmp_path / name)) == [null]


def test_a_path_that_only_begins_alike_is_not_inside() -> None:
    assert is_inside("/a/b", ("/a",)) and is_inside("/a", ("/a",)) and is_inside("/a", ("/",))
    assert not is_inside("/ab", ("/a",))
    with pytest.raises(RepositoryRefused, match="/a, which"):
        refuse_hidden("/a/b", ["/x", "/a"], "the repository")


def test_what_is_hidden_is_sealed_after_everything_is_mounted(tmp_path: Path) -> None:
    secret = str(tmp_path / "secret")
    os.mkdir(secret)
    words = arguments([*ground(str(tmp_path), {}), Mount(Kind.EMPTY, secret)])
    assert words.index("--remount-ro") > words.index(secret)
    assert words[:3] == ["--ro-bind", "/", "/"]


def test_a_home_that_is_no_folder_or_the_root_has_no_layer(tmp_path: Path) -> None:
    assert real_home({"HOME": "/"}) == real_home({}) == ""
    assert real_home({"HOME": str(tmp_path / "absent")}) == ""
    assert state_folder("", AGENT_STATE[AgentName.CLAUDE], {}) == ""
    assert guard_settings("", AGENT_STATE[AgentName.CLAUDE]) == ([], ())


def test_a_state_folder_that_cannot_be_made_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state = AGENT_STATE[AgentName.CLAUDE]
    assert state_folder(str(tmp_path / "file"), state, {}) == ""


def test_caches_that_were_moved_by_the_environment_are_open(tmp_path: Path) -> None:
    for name in ("x", "cargo/registry"):
        (tmp_path / name).mkdir(parents=True)
    environment = {"XDG_CACHE_HOME": str(tmp_path / "x"), "CARGO_HOME": str(tmp_path / "cargo")}
    mounts = cache_mounts("", (".npm", "/absent"), environment, must_exist=True)
    assert [mount.target for mount in mounts] == [
        str(tmp_path / "x"),
        str(tmp_path / "cargo" / "registry"),
    ]


def test_carving_shows_everything_but_the_hidden(tmp_path: Path) -> None:
    for name in ("a/secret", "a/open", "b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    shown = carve((str(tmp_path / "a" / "secret"),), str(tmp_path))
    assert shown == [str(tmp_path / "a" / "open"), str(tmp_path / "b")]
    assert carve((str(tmp_path / "absent" / "x"),), str(tmp_path / "absent")) == []


def test_a_lock_a_link_and_a_file_that_goes_are_not_copied(tmp_path: Path) -> None:
    source = tmp_path / "refs"
    (source / "heads").mkdir(parents=True)
    (source / "heads" / "master").write_text("1")
    (source / "heads" / "master.lock").write_text("2")
    (source / "heads" / "link").symlink_to("master")
    os.mkfifo(source / "heads" / "pipe")
    copy_plain_files(str(source), str(tmp_path / "copy"))
    assert os.listdir(tmp_path / "copy" / "heads") == ["master"]


def test_what_is_no_object_is_swept_and_links_are_not_followed(tmp_path: Path) -> None:
    objects, other = tmp_path / "objects", tmp_path / "other"
    for folder in (objects / "aa", other):
        folder.mkdir(parents=True)
    (other / "kept").write_text("")
    os.mkfifo(objects / "aa" / "pipe")
    (objects / "link").symlink_to(other)
    (objects / "aa" / "plain").write_text("")
    sweep(str(objects))
    assert sorted(path.name for path in objects.rglob("*")) == ["aa", "plain"]
    assert (other / "kept").exists()


def test_a_toolchain_in_a_covered_folder_is_shown_with_what_belongs_to_it(tmp_path: Path) -> None:
    for name in ("node/bin", "node/lib", "venv/bin", "tools", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    agent = tmp_path / "tools" / "agent"
    agent.write_text(f"#!{tmp_path}/venv/bin/python -I\n")
    path = os.pathsep.join((str(tmp_path / "node" / "bin"), "relative", str(tmp_path), "/usr/bin"))
    mounts = program_mounts((str(agent), "/no/such"), path, (str(tmp_path),))
    assert [os.path.relpath(mount.target, tmp_path) for mount in mounts] == [
        *("node/bin", "node/lib", "tools", "venv/bin", "venv/pyvenv.cfg"),
    ]


# --- boxes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [("no-such-program",), ("/no/such/program",)])
def test_a_program_that_is_missing_is_missing_in_the_usual_words(
    tmp_path: Path, argv: tuple[str, ...]
) -> None:
    spec = ProcessSpec(argv=argv, cwd="/", env={"PATH": os.defpath}, timeout_s=30)
    boxed = run(BoxedRunner(system_runner(), "/usr/bin/bwrap", [], str(tmp_path)), spec)
    plain = run(system_runner(), spec)
    assert (boxed.state, boxed.why) == (plain.state, plain.why)


def bubblewrap_in(folder: Path) -> Bubblewrap:
    return Bubblewrap(program="/usr/bin/bwrap", private=private_in(folder / "own"), caches=())


@pytest.mark.parametrize("sandbox", [bubblewrap_in, None])
def test_a_box_that_stands_already_is_not_built_again(
    tmp_path: Path, sandbox: Callable[[Path], Bubblewrap] | None
) -> None:
    site = site_in(tmp_path)
    made = sandbox(tmp_path) if sandbox else Landlock(private=private_in(tmp_path), caches=())
    box = made.enclose(site)
    with pytest.raises(CouldNotCheck, match="could not be built"):
        made.enclose(site)
    box.close()
    assert made.enclose(site).bring_home() == ()


def test_the_owner_s_move_of_the_job_s_branch_wins(tmp_path: Path) -> None:
    site = site_in(tmp_path)
    box = bubblewrap_in(tmp_path).enclose(site)
    branch = f"refs/heads/{site.worktree.branch}"
    base, tree = site.worktree.base_commit, Path(site.worktree.repo)
    ours = git(tree, "commit-tree", "-p", base, "-m", "agent", f"{base}^{{tree}}")
    theirs = git(tree, "commit-tree", "-p", base, "-m", "owner", f"{base}^{{tree}}")
    git(tree, "update-ref", branch, theirs)
    (Path(box.git.common_dir) / branch).write_text(f"{ours}\n")
    (risk,) = box.bring_home()
    assert risk.code == "commits_not_taken"
    assert git(tree, "rev-parse", branch) == theirs


def test_a_ref_that_holds_no_commit_is_told(tmp_path: Path) -> None:
    site = site_in(tmp_path)
    box = bubblewrap_in(tmp_path).enclose(site)
    (Path(box.git.common_dir) / f"refs/heads/{site.worktree.branch}").write_text("1" * 40)
    (risk,) = box.bring_home()
    assert risk.code == "commits_not_taken"
    box.close()
    assert sorted(os.listdir(Path(site.runtime_dir) / "box")) == ["facts.json", "git"]  # kept


def test_a_repository_that_borrows_objects_is_committed_to_as_well(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin")
    git(tmp_path, "clone", "-q", "--shared", str(origin), "repo")
    alternates = tmp_path / "repo" / ".git" / "objects" / "info" / "alternates"
    alternates.write_text("# borrowed\n../../../origin/.git/objects\n")
    site = _site_of(tmp_path, tmp_path / "repo")
    box = bubblewrap_in(tmp_path).enclose(site)
    script = "echo x > x.txt; git add -A; git -c user.name=a -c user.email=a@b commit -qm work"
    spec = ProcessSpec(
        argv=("bash", "-c", script), cwd=site.worktree.path, env=site.environment, timeout_s=60
    )
    outcome = run(box.around(system_runner()), spec)
    assert outcome.exit_code == 0, outcome.stderr
    assert box.bring_home() == ()
    box.close()
    assert git(tmp_path / "repo", "log", "--format=%s", site.worktree.branch).split() == [
        *("work", "first"),
    ]


def _site_of(folder: Path, repo: Path) -> Site:
    worktree = prepare(repo, folder / "state")
    (folder / "home").mkdir()
    runtime = folder / "state" / "job"
    runtime.mkdir()
    named = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
    return Site(
        worktree=worktree,
        runtime_dir=str(runtime),
        agent=AgentName.CLAUDE,
        program="/bin/true",
        environment=named,
        host_environment=named,
        runner=system_runner(),
        deadline_s=60.0,
    )


# --- macOS, as text ----------------------------------------------------------------------------


def test_the_profile_denies_writing_first_and_hides_last() -> None:
    text = seatbelt.profile(["/w"], ["/keys"], ["/w/.git"], ["/run/ssh"])
    lines = text.splitlines()
    assert lines[:3] == ["(version 1)", "(allow default)", "(deny file-write*)"]
    order = [
        '(allow file-write* (subpath "/w"))',
        '(deny file-write* (subpath "/w/.git"))',
        '(deny file-read* file-write* (subpath "/keys"))',
        '(deny network-outbound (remote unix-socket (subpath "/run/ssh")))',
    ]
    assert [line for line in lines if line in order] == order
    assert text.count("(") == text.count(")")


def test_a_path_cannot_break_out_of_its_string_in_the_profile() -> None:
    text = seatbelt.profile(['/a")(allow default)(x "\\'], [], [], [])
    assert '(subpath "/a\\")(allow default)(x \\"\\\\")' in text


def test_a_job_under_the_profile_has_its_places_and_its_program(tmp_path: Path) -> None:
    site = site_in(tmp_path, SSH_AUTH_SOCK="/s/ssh")
    box = Seatbelt(private=private_in(tmp_path / "own"), caches=()).enclose(site)
    started: list[ProcessSpec] = []

    class Noting:
        def start(self, spec: ProcessSpec) -> object:
            started.append(spec)
            return system_runner().start(dataclasses.replace(spec, argv=("true",)))

    spec = ProcessSpec(
        argv=("true", "x"), cwd="/", env={"PATH": os.defpath}, timeout_s=30, stdin=None
    )
    runner = box.around(Noting())  # type: ignore[arg-type]
    runner.start(spec).wait()
    runner.start(dataclasses.replace(spec, argv=("no-such-program",))).wait()
    program, flag, text, found, argument = started[0].argv
    assert (program, flag, os.path.basename(found), argument) == (
        *("/usr/bin/sandbox-exec", "-p", "true", "x"),
    )
    assert started[1].argv == ("no-such-program",)
    assert f'(subpath "{site.worktree.path}")' in text
    assert f'(deny file-write* (subpath "{site.worktree.path}/.git"))' in text
    assert '(deny network-outbound (remote unix-socket (subpath "/s/ssh")))' in text
    assert started[0].env["TMPDIR"].startswith(str(tmp_path))
    box.close()


# --- the validator's start ---------------------------------------------------------------------


def test_private_places_that_cannot_be_made_anew_are_told(tmp_path: Path) -> None:
    site = site_in(tmp_path)
    box = bubblewrap_in(tmp_path).enclose(site)
    shutil.rmtree(Path(site.runtime_dir) / "box")
    with pytest.raises(CouldNotCheck, match="before the validation: No such file"):
        box.renew()


def test_a_scratch_folder_that_cannot_be_made_anew_is_told(tmp_path: Path) -> None:
    site = site_in(tmp_path)
    box = Seatbelt(private=private_in(tmp_path / "own"), caches=()).enclose(site)
    box.renew()
    shutil.rmtree(site.runtime_dir)
    with pytest.raises(CouldNotCheck, match="before the validation: No such file"):
        box.renew()
