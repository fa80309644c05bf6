"""Tricks with commits, refs, objects, settings, hooks and the `.git` file."""

from __future__ import annotations

from tests.support.trick import Trick

_TAMPERED = frozenset({"tampered"})
_A = frozenset({b"a.txt"})

TRICKS_ON_GIT: tuple[Trick, ...] = (
    Trick(
        name="commit",
        does="commits its work, so that the status is clean",
        script="echo x > new.txt; git add -A; git commit -qm done",
        changed=frozenset({b"new.txt"}),
        hides=True,
    ),
    Trick(
        name="detached_commit",
        does="commits on a detached HEAD and goes back",
        script="git checkout -q --detach; echo x > new.txt; git add -A; git commit -qm done",
        changed=frozenset({b"new.txt"}),
        codes=frozenset({"head_detached"}),
        hides=True,
    ),
    Trick(
        name="moved_branch",
        does="moves the owner's branch to its own commit",
        script="echo x > new.txt; git add -A; git commit -qm done\n"
        "git update-ref refs/heads/master HEAD",
        changed=frozenset({b"new.txt"}),
        codes=frozenset({"branch_moved"}),
        hides=True,
    ),
    Trick(
        name="replace_ref",
        does="makes its own tree stand for the start's by a replace ref",
        script="echo x > a.txt; git add -A; git replace HEAD^{tree} $(git write-tree)",
        changed=_A,
        codes=_TAMPERED,
        hides=True,
    ),
    Trick(
        name="rewritten_object",
        does="writes its own tree into the object of the start's",
        script="echo x > a.txt; git add -A; old=$(git rev-parse HEAD^{tree})\n"
        'new=$(git write-tree); objects="$REPO/.git/objects"\n'
        'at() { echo "$objects/$(echo "$1" | cut -c1-2)/$(echo "$1" | cut -c3-)"; }\n'
        'chmod u+w "$(at $old)"; cat "$(at $new)" > "$(at $old)"',
        changed=_A,
        codes=frozenset({"evidence_incomplete"}),
        hides=True,
    ),
    Trick(
        name="file_monitor",
        does="has git start a program of its own that says that nothing changed",
        script='git config core.fsmonitor "$CANARY"; git update-index --fsmonitor || true\n'
        "echo x > a.txt",
        changed=_A,
        codes=_TAMPERED,
        fires=True,
    ),
    Trick(
        name="clean_filter",
        does="has git clean its files with a program of its own",
        script='git config filter.evil.clean "$CANARY"; mkdir -p "$REPO/.git/info"\n'
        'echo "*.txt filter=evil" > "$REPO/.git/info/attributes"; echo x > a.txt',
        changed=_A,
        codes=_TAMPERED,
        fires=True,
    ),
    Trick(
        name="filter_that_lies",
        does="has a filter show git the old content",
        script='cp a.txt "$OUTSIDE/old"; git config filter.evil.clean "cat $OUTSIDE/old"\n'
        'mkdir -p "$REPO/.git/info"; echo "a.txt filter=evil" > "$REPO/.git/info/attributes"\n'
        'tr a x < "$OUTSIDE/old" > a.txt',
        changed=_A,
        codes=_TAMPERED,
        hides=True,
    ),
    Trick(
        name="attributes_in_the_tree",
        does="names a filter in its own `.gitattributes`",
        script='git config filter.evil.clean "$CANARY"; echo "*.txt filter=evil" >>.gitattributes\n'
        "echo x > a.txt",
        changed=frozenset({b"a.txt", b".gitattributes"}),
        codes=_TAMPERED,
        fires=True,
    ),
    Trick(
        name="hook",
        does="plants a hook for the owner's next git command",
        script='mkdir -p "$REPO/.git/hooks"; cp "$CANARY" "$REPO/.git/hooks/post-index-change"\n'
        "echo x > a.txt",
        changed=_A,
        codes=_TAMPERED,
        fires=True,
    ),
    Trick(
        name="hooks_path",
        does="leads `core.hooksPath` to hooks of its own",
        script='mkdir "$OUTSIDE/hooks"; cp "$CANARY" "$OUTSIDE/hooks/post-index-change"\n'
        'git config core.hooksPath "$OUTSIDE/hooks"; echo x > a.txt',
        changed=_A,
        codes=_TAMPERED,
        fires=True,
    ),
    Trick(
        name="included_settings",
        does="has the shared settings include a file of its own",
        script='printf "[core]\\n\\tfsmonitor = $CANARY\\n" > "$OUTSIDE/config"\n'
        'git config include.path "$OUTSIDE/config"; echo x > a.txt',
        changed=_A,
        codes=_TAMPERED,
        fires=True,
    ),
    Trick(
        name="worktree_settings",
        does="writes the program into the worktree's own settings",
        script="git config extensions.worktreeConfig true\n"
        'git config --worktree core.fsmonitor "$CANARY"; echo x > a.txt',
        changed=_A,
        codes=_TAMPERED,
        fires=True,
    ),
    Trick(
        name="pointer_rewritten",
        does="leads the `.git` file to a repository where all is committed",
        script='git init -q "$OUTSIDE/own"; cp a.txt "$OUTSIDE/keep"; echo x > a.txt\n'
        'git --git-dir="$OUTSIDE/own/.git" --work-tree=. add -A\n'
        'git --git-dir="$OUTSIDE/own/.git" --work-tree=. commit -qm all\n'
        'git --git-dir="$OUTSIDE/own/.git" config core.worktree "$PWD"\n'
        'echo "gitdir: $OUTSIDE/own/.git" > .git',
        changed=_A,
        codes=_TAMPERED,
        hides=True,
    ),
    Trick(
        name="pointer_replaced",
        does="puts a repository of its own in the place of `.git`",
        script="rm .git; git init -q; echo x > a.txt; git add -A; git commit -qm all",
        changed=_A,
        codes=_TAMPERED,
        hides=True,
    ),
    Trick(
        name="pointer_removed",
        does="removes the `.git` file",
        script="rm .git; echo x > a.txt",
        changed=_A,
        codes=_TAMPERED,
        hides=True,
    ),
    Trick(
        name="common_directory",
        does="leads `commondir` to a repository of its own",
        script='git clone -q --bare "$REPO" "$OUTSIDE/common"\n'
        'git -C "$OUTSIDE/common" config core.fsmonitor "$CANARY"\n'
        'echo "$OUTSIDE/common" > "$ADMIN/commondir"; echo x > a.txt',
        changed=_A,
        codes=_TAMPERED,
        fires=True,
    ),
    Trick(
        name="alternates",
        does="leads the object store to objects of its own",
        script='mkdir "$OUTSIDE/objects"\n'
        'echo "$OUTSIDE/objects" > "$REPO/.git/objects/info/alternates"; echo x > a.txt',
        changed=_A,
        codes=_TAMPERED,
    ),
    Trick(
        name="stash",
        does="puts its work into the stash and leaves the tree as it was",
        script="echo x > a.txt; git stash -q",
        hides=True,
    ),
)
