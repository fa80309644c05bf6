"""Tricks that plant a program for a git command other than `status`: each with the command that
starts it for a person, run in the worktree."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.trick import Trick

_A = frozenset({b"a.txt"})
_TAMPERED = frozenset({"tampered", "repo_quarantined"})
_EDIT = "echo x > a.txt\n"
_ATTRIBUTES = 'mkdir -p "$REPO/.git/info"; echo "*.txt {0}" > "$REPO/.git/info/attributes"\n'


@dataclass(frozen=True, kw_only=True)
class FiringTrick:
    """A trick and the plain `command` that starts its canary."""

    trick: Trick
    command: str


def _planted(name: str, does: str, script: str, command: str) -> FiringTrick:
    trick = Trick(name=name, does=does, script=script + _EDIT, changed=_A, codes=_TAMPERED)
    return FiringTrick(trick=trick, command=command)


def _hook(name: str, command: str) -> FiringTrick:
    script = f'mkdir -p "$REPO/.git/hooks"; cp "$CANARY" "$REPO/.git/hooks/{name}"\n'
    return _planted(f"hook_{name}", f"plants a {name} hook", script, command)


FIRING: tuple[FiringTrick, ...] = (
    _planted(
        "smudge_filter",
        "has git write files through a program of its own",
        'git config filter.evil.smudge "$CANARY"\n' + _ATTRIBUTES.format("filter=evil"),
        "rm b.txt; git checkout -- b.txt",
    ),
    _planted(
        "process_filter",
        "has git talk to a filter process of its own",
        'git config filter.evil.process "$CANARY"\n' + _ATTRIBUTES.format("filter=evil"),
        "touch -d 2001-01-01 b.txt; git status",
    ),
    _planted(
        "text_conversion",
        "has `git diff` convert files with a program of its own",
        'git config diff.evil.textconv "$CANARY"\n' + _ATTRIBUTES.format("diff=evil"),
        "git diff",
    ),
    _planted(
        "diff_command",
        "has `git diff` compare files with a program of its own",
        'git config diff.evil.command "$CANARY"\n' + _ATTRIBUTES.format("diff=evil"),
        "git diff",
    ),
    _planted(
        "external_diff", "sets `diff.external`", 'git config diff.external "$CANARY"\n', "git diff"
    ),
    _planted(
        "ssh_command",
        "sets `core.sshCommand`",
        'git config core.sshCommand "$CANARY"\n',
        "git fetch ssh://localhost/nowhere",
    ),
    _planted(
        "external_transport",
        "allows and names a transport that is a program",
        'git config protocol.ext.allow always; git config remote.up.url "ext::$CANARY"\n',
        "git fetch up",
    ),
    _planted(
        "upload_pack",
        "names the program that serves a remote",
        'git config remote.up.url "$REPO"; git config remote.up.uploadpack "$CANARY"\n',
        "git fetch up",
    ),
    _planted(
        "alias", "makes a word of git a program", 'git config alias.st "!$CANARY"\n', "git st"
    ),
    _planted(
        "editor",
        "sets `core.editor`",
        'git config core.editor "$CANARY"\n',
        "env -u GIT_EDITOR -u VISUAL -u EDITOR git commit --allow-empty",
    ),
    _planted(
        "signing_program",
        "has git sign commits with a program of its own",
        'git config commit.gpgSign true; git config gpg.program "$CANARY"\n',
        "git commit --allow-empty -m x",
    ),
    _planted(
        "conditional_include",
        "includes settings of its own on a condition",
        'printf "[diff]\\n\\texternal = $CANARY\\n" > "$OUTSIDE/config"\n'
        'git config "includeIf.onbranch:**.path" "$OUTSIDE/config"\n',
        "git diff",
    ),
    _hook("pre-commit", "git commit --allow-empty -m x"),
    _hook("post-checkout", "git checkout -q -b elsewhere"),
    _hook("reference-transaction", "git update-ref refs/heads/elsewhere HEAD"),
    FiringTrick(
        trick=Trick(
            name="nested_monitor",
            does="puts a repository with a file monitor of its own into the index",
            script="git init -q sub; echo y > sub/inner.txt; git -C sub add inner.txt\n"
            "git -C sub commit -qm inner; git -c advice.addEmbeddedRepo=false add sub\n"
            'git -C sub config core.fsmonitor "$CANARY"; echo z > sub/inner.txt\n',
            changed=frozenset({b"sub/inner.txt"}),
            codes=frozenset({"nested_repository"}),
        ),
        command="git status",
    ),
    FiringTrick(
        trick=Trick(
            name="nested_filter",
            does="puts a repository with a filter of its own inside",
            script='git init -q sub; git -C sub config filter.evil.clean "$CANARY"\n'
            'echo "* filter=evil" > sub/.gitattributes; echo y > sub/inner.txt\n',
            changed=frozenset({b"sub/.gitattributes", b"sub/inner.txt"}),
            codes=frozenset({"nested_repository"}),
        ),
        command="git -C sub add -A",
    ),
    FiringTrick(
        trick=Trick(
            name="submodule_monitor",
            does="commits a submodule whose own settings start a program",
            script='git init -q "$OUTSIDE/up"; echo y > "$OUTSIDE/up/inner.txt"\n'
            'git -C "$OUTSIDE/up" add -A; git -C "$OUTSIDE/up" commit -qm up\n'
            'git -c protocol.file.allow=always submodule --quiet add "$OUTSIDE/up" lib\n'
            'git -C lib config core.fsmonitor "$CANARY"; git commit -qm "a submodule"\n',
            changed=frozenset({b".gitmodules", b"lib"}),
        ),
        command="git status",
    ),
)
