"""What changed around a job's worktree: other worktrees, files, settings and hooks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runagent.around import main_checkout
from runagent.around.surroundings import Around, Surroundings
from runagent.around.watched import WatchList, read_watched, tell_changed
from runagent.git.head import loose_refs, read_line
from runagent.git.ignore_rules import owner_excludes
from runagent.process import system_runner
from runagent.sandbox.protocol import GitPlace
from tests.support.repositories import git
from tests.support.scene import BOX, Scene, codes, make_scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path)


@pytest.mark.parametrize("file", ["gitdir", "commondir", "pointer", "gone", "settings"])
def test_the_git_files_of_another_worktree_are_told_when_they_change(
    scene: Scene, file: str
) -> None:
    admin = scene.repo / ".git" / "worktrees" / "other"

    def work() -> None:
        if file == "pointer":
            (scene.other / ".git").write_text("gitdir: /elsewhere\n")
        elif file == "gone":
            admin.rename(scene.folder / "taken")
        elif file == "settings":
            (admin / "config.worktree").write_text("[core]\n\tfsmonitor = /evil\n")
        else:
            (admin / file).write_text("/elsewhere/.git\n")

    around = scene.look(work)
    assert codes(around) == {"sibling_changed"}
    assert str(scene.other) in around.risks[0].message


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("gitdir", "other/.git", "othex/.git"), ("commondir", "..", ".x"), ("HEAD", "\n", "x")],
)
def test_a_change_of_the_same_length_with_its_time_put_back_is_told(
    scene: Scene, file: str, old: str, new: str
) -> None:
    path = scene.repo / ".git" / "worktrees" / "other" / file

    def work() -> None:
        before, text = path.stat(), path.read_text()
        path.write_text(text.replace(old, new))
        assert path.stat().st_size == before.st_size
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert codes(scene.look(work)) == {"ref_moved" if file == "HEAD" else "sibling_changed"}


def test_refs_are_read_plainly_whatever_stands_among_them(tmp_path: Path) -> None:
    heads = tmp_path / "refs" / "heads"
    (heads / "a").mkdir(parents=True)
    (heads / "a" / "plain").write_text("1" * 40 + "\n")
    (heads / "long").write_text("2" * 20_000)
    (heads / "empty").write_text("")
    (heads / "link").symlink_to(heads / "a" / "plain")
    (heads / "folder").symlink_to(heads / "a")
    (heads / "loop").symlink_to(heads / "loop")
    os.mkfifo(heads / "pipe")
    found = {ref: read_line(f"{tmp_path}/{ref}") for ref in loose_refs(str(tmp_path))}
    assert found == {
        "refs/heads/a/plain": "1" * 40,
        "refs/heads/long": "2" * 8_192,
        **{f"refs/heads/{name}": "" for name in ("empty", "link", "loop", "pipe")},
    }
    (tmp_path / "refs").rename(tmp_path / "kept")
    (tmp_path / "refs").symlink_to(tmp_path / "kept")
    assert list(loose_refs(str(tmp_path))) == []


def test_files_of_the_main_checkout_are_told_without_being_read(scene: Scene) -> None:
    unreadable = scene.repo / "unreadable.txt"
    unreadable.write_text("secret")
    unreadable.chmod(0)

    def work() -> None:
        (scene.repo / "src" / "b.py").write_text("planted\n")
        (scene.repo / "new.txt").write_text("planted\n")
        os.mkfifo(scene.repo / "pipe")
        (scene.repo / "odd\x1b[2J").write_bytes(b"")

    around = scene.look(work)
    assert codes(around) == {"checkout_changed"}
    assert all(name in around.risks[0].message for name in ("src/b.py", "new.txt", "pipe"))


def test_a_file_whose_time_was_put_back_is_told(scene: Scene) -> None:
    path = scene.repo / "a.txt"
    found = path.stat()

    def work() -> None:
        path.write_text("b\n")
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    assert codes(scene.look(work)) == {"checkout_changed"}


def test_rules_that_the_agent_adds_hide_nothing(scene: Scene) -> None:
    def work() -> None:
        for place in (scene.tree, scene.repo):
            (place / ".gitignore").write_text("*\n")
        (scene.repo / ".git" / "info").mkdir(exist_ok=True)
        (scene.repo / ".git" / "info" / "exclude").write_text("*\n")
        (scene.repo / "new.txt").write_text("planted\n")

    assert "new.txt" in scene.look(work).risks[0].message


def test_what_the_owner_ignores_for_all_repositories_is_skipped(scene: Scene) -> None:
    (scene.home / "ignore").write_text(".idea/\n")
    git_info = scene.repo / ".git" / "info"
    git_info.mkdir(exist_ok=True)
    (git_info / "exclude").write_text("mine/\n")

    def work() -> None:
        for name in (".idea", "mine"):
            (scene.repo / name).mkdir()
            (scene.repo / name / "state.xml").write_text("x")

    assert scene.look(work) == Around()


def test_an_owner_who_edits_during_jobs_may_have_it_noted_only(scene: Scene) -> None:
    around = scene.look(lambda: (scene.repo / "a.txt").write_text("mine\n"), noted=True)
    assert around.risks == ()
    assert {note.code for note in around.notes} == {"checkout_changed"}


def test_watched_files_are_told_and_host_keys_that_ssh_met_are_not(scene: Scene) -> None:
    def work() -> None:
        (scene.home / ".bashrc").write_text("evil\n")
        (scene.home / ".ssh" / "authorized_keys").write_text("ssh-ed25519 AAAA\n")
        (scene.home / ".ssh" / "known_hosts").write_text("x\n")

    around = scene.look(work)
    assert codes(around) == {"outside_changed"}
    assert ".bashrc" in around.risks[0].message
    assert "authorized_keys" in around.risks[0].message
    assert "known_hosts" not in around.risks[0].message


def test_what_the_box_made_unwritable_is_a_note(scene: Scene) -> None:
    def work() -> None:
        (scene.home / ".bashrc").write_text("owner\n")
        (scene.repo / "a.txt").write_text("owner\n")
        git(scene.repo, "tag", "-d", "v1")
        git(scene.repo, "config", "core.hooksPath", "/owners")

    around = scene.look(work, enforces=BOX)
    assert around.risks == ()
    assert around.planted == ()
    told = {note.code for note in around.notes}
    assert told == {"outside_changed", "checkout_changed", "ref_moved", "tampered"}


@pytest.mark.parametrize(
    ("key", "value", "planted"),
    [
        ("core.hooksPath", "/evil", True),
        ("core.fsmonitor", "/evil", True),
        ("core.fsmonitor", "false", False),
        ("filter.x.process", "/evil", True),
        ("include.path", "/evil", True),
        ("includeIf.gitdir:/x.path", "/evil", True),
        ("diff.x.textconv", "/evil", True),
        ("diff.external", "/evil", True),
        ("core.sshCommand", "/evil", True),
        ("alias.st", "!/evil", True),
        ("alias.st", "status -sb", False),
        ("credential.helper", "/evil", True),
        ("submodule.x.update", "!evil", True),
        ("submodule.x.url", "https://example.org", False),
        ("branch.master.remote", "origin", False),
        ("remote.origin.url", "https://example.org", False),
        ("core.autocrlf", "true", False),
    ],
)
def test_only_settings_that_start_a_program_are_planted(
    scene: Scene, key: str, value: str, planted: bool
) -> None:
    around = scene.look(lambda: git(scene.tree, "config", key, value))
    assert bool(around.planted) == planted
    if planted:
        assert around.planted[0].lower() == f"config: {key}".lower()


def test_new_and_changed_hooks_are_planted_and_samples_are_not(scene: Scene) -> None:
    hooks = scene.repo / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-push").write_text("#!/bin/sh\n")
    (hooks / "post-merge").write_text("#!/bin/sh\n")

    def work() -> None:
        (hooks / "pre-push").write_text("#!/bin/sh\nevil\n")
        (hooks / "post-checkout").write_text("#!/bin/sh\nevil\n")
        (hooks / "update.sample").write_text("#!/bin/sh\n")
        (hooks / "post-merge").unlink()

    assert scene.look(work).planted == ("hooks/post-checkout", "hooks/pre-push")


def test_a_config_that_cannot_be_read_any_more_is_planted(scene: Scene) -> None:
    planted = scene.look(lambda: (scene.repo / ".git" / "config").write_text("[core\n")).planted
    assert len(planted) == 1
    assert planted[0].startswith("config: (unreadable)")


def test_what_others_were_in_the_middle_of_is_looked_at_once_more(scene: Scene) -> None:
    tag = git(scene.repo, "rev-parse", "v1")
    around = scene.look(
        lambda: git(scene.repo, "tag", "-d", "v1"), again=lambda: git(scene.repo, "tag", "v1", tag)
    )
    assert around == Around()


def test_a_checkout_whose_rules_cannot_be_read_is_noted(scene: Scene) -> None:
    Path(scene.worktree.shadow_dir, "rules").mkdir()
    around = scene.look(lambda: (scene.repo / "a.txt").write_text("x\n"))
    assert around.risks == ()
    assert {note.code for note in around.notes} == {"checkout_partly_seen"}


def test_a_look_without_a_start_says_nothing(scene: Scene) -> None:
    around = Surroundings(
        scene.worktree,
        runner=system_runner(),
        git=GitPlace(scene.worktree.admin_dir, scene.worktree.common_dir),
        enforces=frozenset(),
        watch_list=WatchList(),
        excludes=(),
        deadline_s=60.0,
        pause=lambda: None,
    )
    assert around.after_job() == Around()


def test_the_ignore_file_of_the_owner_is_found_by_gits_own_rules(scene: Scene) -> None:
    assert owner_excludes(str(scene.repo), {"HOME": "/h"}) == ("/h/.config/git/ignore",)
    assert owner_excludes(str(scene.repo), {"XDG_CONFIG_HOME": "/x"}) == ("/x/git/ignore",)
    assert owner_excludes(str(scene.repo), {}) == ()
    git(scene.repo, "config", "core.excludesFile", "/my/ignore")
    assert owner_excludes(str(scene.repo), {"HOME": "/h"}) == ("/my/ignore",)


def test_a_walk_has_a_bound_and_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_checkout, "ENTRIES_MAX", 1)
    around = scene.look(lambda: (scene.repo / "src" / "new.txt").write_text("x"))
    assert around.risks == ()
    assert {note.code for note in around.notes} == {"checkout_partly_seen"}


def test_the_watch_is_bounded_and_survives_whatever_stands_there(scene: Scene) -> None:
    home = scene.home
    (home / "deep" / "er" / "and" / "deeper").mkdir(parents=True)
    (home / "deep" / "er" / "and" / "deeper" / "unseen").write_text("x")
    (home / "deep" / "loop").symlink_to(home / "deep")
    (home / "deep" / "nowhere").symlink_to("/nonexistent/nothing")
    os.mkfifo(home / "deep" / "pipe")
    with (home / "deep" / "huge").open("wb") as file:
        file.truncate(5 * 1024**3)
    (home / "many").mkdir()
    for number in range(2_100):
        (home / "many" / str(number)).touch()
    paths = ("relative", str(home / "gone"), str(home / "deep"), str(home / "many"))
    found = read_watched(paths)
    assert len(found) == 2_000
    assert not any("unseen" in path for path in found)
    assert found[str(home / "deep" / "nowhere")].startswith("unreadable")
    linked = home / ".bashrc"
    target = home / "dotfiles"
    linked.rename(target)
    linked.symlink_to(target)
    before = read_watched((str(linked),))
    target.write_text("evil\n")
    assert tell_changed(before, read_watched((str(linked),))) == [str(linked)]
