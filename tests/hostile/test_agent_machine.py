"""Random sequences of what an agent may do to its files and to git, and of lies about it: what the
host reports is what a plain reading of every file says, and no program of the agent's is run.

A failure prints the steps and a blob for `@reproduce_failure`; where the branch is guarded the
examples are the same in every run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from runagent.evidence.evidence import EvidenceCollector
from runagent.process import system_runner
from tests.support.agent_model import (
    committed,
    differing,
    folders_named_git,
    read_everything,
)
from tests.support.repositories import attempt_git, prepare
from tests.support.tools import is_ci
from tests.support.tricks import has_fired, hush, make_canary, make_tricked_repository

_PATHS = (
    *(b"a.txt", b"b.txt", b"src/app.py", b"src/lib/core.py", b"stamp.txt"),
    *(b"new.txt", b"src/new.py", b"deep/in/side", b"b\xff\n", b"nest/one", b"nest/in/two"),
    *(b"out/app", b"run.log", b"src/x.log"),
)
PATHS = st.sampled_from(_PATHS)
TEXTS = st.sampled_from([b"", b"x\n", b"a" * 50 + b"\n", b"b" * 50 + b"\n", b"other\n" * 9])
_LIES = (
    ("config", "core.fsmonitor", "{canary}"),
    ("config", "filter.evil.clean", "{canary}"),
    ("config", "core.hooksPath", "{folder}"),
    ("config", "core.fileMode", "false"),
    ("config", "core.trustctime", "false"),
    ("config", "core.checkStat", "minimal"),
    ("config", "status.showUntrackedFiles", "no"),
    ("config", "core.excludesFile", "{folder}/everything"),
    ("config", "include.path", "{folder}/settings"),
    ("config", "alias.status", "!{canary}"),
)
_GIT = (
    ("add", "-A"),
    ("add", "-f", "out", "run.log"),
    ("commit", "-q", "-a", "-m", "all"),
    ("commit", "-q", "-m", "staged"),
    ("mv", "-f", "a.txt", "src/moved.txt"),
    ("mv", "src/lib", "lib"),
    ("rm", "-q", "-f", "b.txt"),
    ("rm", "-q", "--cached", "a.txt"),
    ("stash",),
    ("stash", "-u"),
    ("stash", "pop"),
    ("checkout", "-q", "--", "."),
    ("checkout", "-q", "--detach"),
    ("checkout", "-q", "-b", "other"),
    ("reset", "-q", "--hard"),
    ("update-index", "--assume-unchanged", "a.txt"),
    ("update-index", "--skip-worktree", "src/app.py"),
    ("update-index", "--untracked-cache"),
    ("sparse-checkout", "set", "--no-cone", "/a.txt", "/.git*"),
    ("replace", "-f", "HEAD", "HEAD"),
    ("pack-refs", "--all"),
    ("gc", "-q"),
)


class AgentMachine(RuleBasedStateMachine):
    """One agent in one worktree."""

    @initialize()
    def begin(self) -> None:
        self._stack = contextlib.ExitStack()
        self._folder = Path(self._stack.enter_context(_temporary_folder()))
        self._repo = self._folder / "repo"
        shutil.copytree(_template(), self._repo, symlinks=True)
        self._elsewhere = self._folder / "elsewhere"
        self._canary = make_canary(self._elsewhere)
        for hook in ("post-index-change", "reference-transaction", "post-checkout"):
            (self._elsewhere / hook).symlink_to(self._canary)
        (self._elsewhere / "everything").write_text("*\n")
        (self._elsewhere / "settings").write_text(f"[core]\n\tfsmonitor = {self._canary}\n")
        self._worktree = prepare(self._repo, self._folder / "state")
        self._tree = Path(self._worktree.path)
        self._collector = EvidenceCollector(self._worktree, runner=system_runner())
        self._collector.start()
        self._start = read_everything(self._tree)
        self._lied = False
        self._has_own_rules = False

    def _at(self, path: bytes) -> bytes:
        return os.path.join(os.fsencode(self._tree), path)

    @contextlib.contextmanager
    def _as_far_as_it_goes(self):  # type: ignore[no-untyped-def]
        """What cannot be done here (a folder in the way) is not done."""
        with contextlib.suppress(OSError, shutil.Error):
            yield

    @rule(path=PATHS, text=TEXTS)
    def write_a_file(self, path: bytes, text: bytes) -> None:
        with self._as_far_as_it_goes():
            os.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
            if not os.path.islink(self._at(path)) and os.path.isfile(self._at(path)):
                with open(self._at(path), "r+b") as file:
                    file.truncate(0)
                    file.write(text)
            elif not os.path.lexists(self._at(path)):
                with open(self._at(path), "xb") as file:
                    file.write(text)

    @rule(path=PATHS, text=TEXTS)
    def write_and_put_the_time_back(self, path: bytes, text: bytes) -> None:
        with self._as_far_as_it_goes():
            found = os.lstat(self._at(path))
            self.write_a_file(path, text)  # type: ignore[operator]
            os.utime(self._at(path), ns=(found.st_atime_ns, found.st_mtime_ns))

    @rule(path=PATHS)
    def swap_the_letters(self, path: bytes) -> None:
        with self._as_far_as_it_goes():
            if os.path.islink(self._at(path)) or not os.path.isfile(self._at(path)):
                return
            found = os.lstat(self._at(path))
            with open(self._at(path), "r+b") as file:
                text = file.read().swapcase()
                file.seek(0)
                file.write(text)
            os.utime(self._at(path), ns=(found.st_atime_ns, found.st_mtime_ns))

    @rule(path=PATHS)
    def remove(self, path: bytes) -> None:
        with self._as_far_as_it_goes():
            os.unlink(self._at(path))

    @rule(path=PATHS)
    def touch(self, path: bytes) -> None:
        with self._as_far_as_it_goes():
            os.utime(self._at(path), (2**35, 2**35), follow_symlinks=False)

    @rule(path=PATHS, mode=st.sampled_from([0o644, 0o755, 0o600, 0o700]))
    def change_the_mode(self, path: bytes, mode: int) -> None:
        with self._as_far_as_it_goes():
            if os.path.isfile(self._at(path)) and not os.path.islink(self._at(path)):
                os.chmod(self._at(path), mode)

    @rule(path=PATHS, leads_to=st.sampled_from([b".", b"a.txt", b"../..", b"/", b"nowhere"]))
    def put_a_link_there(self, path: bytes, leads_to: bytes) -> None:
        with self._as_far_as_it_goes():
            os.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
            if os.path.lexists(self._at(path)):
                os.unlink(self._at(path))
            os.symlink(leads_to, self._at(path))

    @rule(path=PATHS, other=PATHS)
    def rename(self, path: bytes, other: bytes) -> None:
        with self._as_far_as_it_goes():
            os.makedirs(os.path.dirname(self._at(other)), exist_ok=True)
            os.rename(self._at(path), self._at(other))

    @rule(path=PATHS, other=PATHS)
    def link_hard(self, path: bytes, other: bytes) -> None:
        with self._as_far_as_it_goes():
            os.link(self._at(path), self._at(other), follow_symlinks=False)

    @rule(path=PATHS)
    def put_a_pipe_there(self, path: bytes) -> None:
        with self._as_far_as_it_goes():
            if os.path.lexists(self._at(path)):
                os.unlink(self._at(path))
            os.mkfifo(self._at(path))

    @rule(path=PATHS)
    def put_a_folder_there(self, path: bytes) -> None:
        with self._as_far_as_it_goes():
            os.unlink(self._at(path))
            os.mkdir(self._at(path))
            with open(self._at(path + b"/inner"), "xb") as file:
                file.write(b"inner\n")

    @rule(folder=st.sampled_from([b"nest", b"src", b"deep"]))
    def make_a_repository_inside(self, folder: bytes) -> None:
        if os.path.isdir(self._at(folder)) and not os.path.islink(self._at(folder)):
            attempt_git(Path(os.fsdecode(self._at(folder))), "init", "-q")

    @rule(command=st.sampled_from(_GIT))
    def use_git(self, command: tuple[str, ...]) -> None:
        attempt_git(self._tree, *command)

    @rule(lie=st.sampled_from(_LIES))
    def lie_to_git(self, lie: tuple[str, ...]) -> None:
        words = [word.format(canary=self._canary, folder=self._elsewhere) for word in lie]
        self._lied |= attempt_git(self._tree, *words).returncode == 0

    @rule()
    def exclude_everything(self) -> None:
        (self._repo / ".git" / "info" / "exclude").write_text("*\n")
        self._lied = True

    @rule()
    def name_the_filter(self) -> None:
        (self._repo / ".git" / "info" / "attributes").write_text("* filter=evil\n")
        self._lied = True

    @precondition(lambda self: not self._has_own_rules)
    @rule()
    def hide_behind_rules_of_its_own(self) -> None:
        with self._as_far_as_it_goes():
            os.mkdir(self._at(b"hid"))
            for name, text in ((b"hid/.gitignore", b"*\n"), (b"hid/x", b"x\n")):
                with open(self._at(name), "xb") as file:
                    file.write(text)
            self._has_own_rules = True

    def _is_ignored(self, path: bytes) -> bool:
        by_rule = path.startswith(b"out/") or path.endswith(b".log") or b"/out/" in path
        return by_rule or path == b"hid/x"

    def teardown(self) -> None:
        if not hasattr(self, "_stack"):
            return
        with self._stack:
            self._judge()

    def _judge(self) -> None:
        hush(self._canary)
        end = read_everything(self._tree)
        by_commit = committed(
            self._repo, self._tree, self._worktree.base_commit, self._worktree.branch
        )
        hush(self._canary)
        self._collector.after_agent()
        evidence = self._collector.after_validation()
        assert not has_fired(self._canary), "the host ran a program of the agent's"

        codes = {risk.code for risk in evidence.risks}
        differ = differing(self._start, end)
        expected = {
            path for path in differ if path in self._start or not self._is_ignored(path)
        } | by_commit
        tracked_since = {path for path in differ if self._is_ignored(path)} - self._start.keys()
        reported = {path for path in evidence.agent_changed if not path.endswith((b"/", b".git"))}
        sources = {source for source, _ in evidence.renames}
        assert expected - reported <= sources, f"not reported: {expected - reported}"
        assert sources <= differ | by_commit
        assert reported - expected <= tracked_since, f"too much: {reported - expected}"
        assert not self._lied or "tampered" in codes
        inside = folders_named_git(self._tree)
        assert not inside or codes & {"nested_repository", "git_disagrees", "evidence_incomplete"}
        if self._has_own_rules and b"hid/x" in end and b"hid/x" not in by_commit:
            assert codes & {"ignored_by_new_rules", "evidence_incomplete"}


@contextlib.contextmanager
def _temporary_folder():  # type: ignore[no-untyped-def]
    folder = tempfile.mkdtemp(prefix="fd-machine-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_TEMPLATES: list[Path] = []


def _template() -> Path:
    return _TEMPLATES[0]


@pytest.mark.slow
@pytest.mark.timeout(3_600)  # 300 examples of 0.3 s, on a machine that is eight times slower
def test_what_any_agent_did_is_what_the_host_reports(tmp_path: Path) -> None:
    _TEMPLATES[:] = [make_tricked_repository(tmp_path / "template")]
    AgentMachine.TestCase.settings = settings(
        max_examples=300 if is_ci() else 60,
        stateful_step_count=10,
        deadline=None,
        derandomize=is_ci(),
        print_blob=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    result = AgentMachine.TestCase("runTest")
    result.runTest()
