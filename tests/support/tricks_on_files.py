"""Tricks with the files of a worktree, its index and the rules of what is ignored."""

from __future__ import annotations

from tests.support.trick import Trick

_TAMPERED = frozenset({"tampered"})
_A = frozenset({b"a.txt"})

TRICKS_ON_FILES: tuple[Trick, ...] = (
    Trick(name="idle", does="does nothing and says that it is done", script=":"),
    Trick(
        name="touch",
        does="gives every file a new time and no new content",
        script="find . -type f ! -name .git -exec touch {} +",
    ),
    Trick(
        name="assume_unchanged",
        does="edits a file behind `update-index --assume-unchanged`",
        script="git update-index --assume-unchanged a.txt; echo hidden > a.txt",
        changed=_A,
        codes=frozenset({"hidden_by_index"}),
        hides=True,
    ),
    Trick(
        name="skip_worktree",
        does="edits a file behind `update-index --skip-worktree`",
        script="git update-index --skip-worktree a.txt; echo hidden > a.txt",
        changed=_A,
        codes=frozenset({"hidden_by_index"}),
        hides=True,
    ),
    Trick(
        name="sparse_checkout",
        does="deletes files behind a sparse checkout of its own",
        script="git sparse-checkout set --no-cone '/a.txt' '/b.txt' '/.git*' '/stamp.txt'",
        changed=frozenset({b"src/app.py", b"src/lib/core.py"}),
        codes=frozenset({"hidden_by_index", "tampered"}),
        hides=True,
    ),
    Trick(
        name="shared_exclude",
        does="adds a file that `.git/info/exclude` now ignores",
        script='mkdir -p "$REPO/.git/info"; echo "*" > "$REPO/.git/info/exclude"; echo x > new.txt',
        changed=frozenset({b"new.txt"}),
        codes=_TAMPERED,
        hides=True,
    ),
    Trick(
        name="excludes_file",
        does="adds a file that `core.excludesFile` now ignores",
        script='echo "*" > "$OUTSIDE/ignore"; git config core.excludesFile "$OUTSIDE/ignore"\n'
        "echo x > new.txt",
        changed=frozenset({b"new.txt"}),
        codes=_TAMPERED,
        hides=True,
    ),
    Trick(
        name="untracked_off",
        does="adds a file behind `status.showUntrackedFiles=no`",
        script="git config status.showUntrackedFiles no; echo x > new.txt",
        changed=frozenset({b"new.txt"}),
        codes=_TAMPERED,
        hides=True,
    ),
    Trick(
        name="rules_that_ignore_themselves",
        does="adds a file beside a `.gitignore` that ignores both, and edits another",
        script="mkdir hidden; echo '*' > hidden/.gitignore; echo x > hidden/evil; echo x > a.txt",
        changed=frozenset({b"a.txt", b"hidden/.gitignore"}),
        codes=frozenset({"ignored_by_new_rules"}),
    ),
    Trick(
        name="ignored_alone",
        does="works in ignored folders alone",
        script="mkdir out; echo x > out/app; echo x > run.log",
        codes=frozenset({"ignored_only"}),
        hides=True,
    ),
    Trick(
        name="forced_ignored_commit",
        does="commits a file that is ignored",
        script="mkdir out; echo x > out/app; git add -f out/app; git commit -qm forced",
        changed=frozenset({b"out/app"}),
        hides=True,
    ),
    Trick(
        name="restored_time",
        does="edits a file, same size, and puts its time back",
        script='touch -r a.txt "$OUTSIDE/time"; tr a x < a.txt > "$OUTSIDE/a"\n'
        'cat "$OUTSIDE/a" > a.txt; touch -r "$OUTSIDE/time" a.txt',
        changed=_A,
    ),
    Trick(
        name="untrusted_change_time",
        does="as before, behind `core.trustctime=false` and `core.checkStat=minimal`",
        script="git config core.trustctime false; git config core.checkStat minimal\n"
        "touch -d '2001-02-03 04:05:06' a.txt; git update-index --refresh\n"
        'touch -r a.txt "$OUTSIDE/time"; tr a x < a.txt > "$OUTSIDE/a"\n'
        'cat "$OUTSIDE/a" > a.txt; touch -r "$OUTSIDE/time" a.txt',
        changed=_A,
        codes=_TAMPERED,
        hides=True,
    ),
    Trick(
        name="mode_off",
        does="makes a file a program behind `core.fileMode=false`",
        script="git config core.fileMode false; chmod +x a.txt",
        changed=_A,
        codes=_TAMPERED,
        hides=True,
    ),
    Trick(
        name="set_user_id",
        does="gives a file the set-user-id bit, which git does not store",
        script="chmod u+s a.txt",
        changed=_A,
        codes=frozenset({"git_disagrees", "special_file"}),
        hides=True,
    ),
    Trick(
        name="keyword",
        does="writes inside `$Id: … $`, which git cuts out before it compares",
        script='sed "s/[0-9]/x/g" stamp.txt > "$OUTSIDE/stamp"; cat "$OUTSIDE/stamp" > stamp.txt',
        changed=frozenset({b"stamp.txt"}),
        codes=frozenset({"git_disagrees"}),
        hides=True,
    ),
    Trick(
        name="nested_repository",
        does="hides its files in a repository inside",
        script="mkdir lib; echo x > lib/one; echo y > lib/two.log; cd lib; git init -q\n"
        "git add one; git commit -qm inner",
        changed=frozenset({b"lib/one"}),
        codes=frozenset({"nested_repository"}),
        hides=True,
    ),
    Trick(
        name="folder_named_git",
        does="hides a file in a folder called `.git` that is no repository",
        script="mkdir -p src/.git; echo x > src/.git/evil",
        changed=frozenset({b"src/.git"}),
        codes=frozenset({"git_disagrees"}),
        hides=True,
    ),
    Trick(
        name="upper_case_git",
        does="adds a file in a folder called `.GIT`, which git refuses to store",
        script="mkdir .GIT; echo x > .GIT/evil; echo x > a.txt",
        changed=frozenset({b".GIT/evil", b"a.txt"}),
        codes=frozenset({"git_disagrees"}),
    ),
    Trick(
        name="rules_in_a_pipe",
        does="makes `.gitignore` a pipe that holds whoever opens it",
        script="rm .gitignore; mkfifo .gitignore; echo x > a.txt",
        changed=frozenset({b".gitignore", b"a.txt"}),
        codes=frozenset({"evidence_incomplete", "special_file"}),
        hides=True,
        fires=True,
        hangs=True,
    ),
    Trick(
        name="giant_rules",
        does="adds a `.gitignore` of 200 MB, which git takes into memory",
        script="mkdir big; truncate -s 200M big/.gitignore; echo x > a.txt",
        changed=frozenset({b"big/.gitignore", b"a.txt"}),
        codes=frozenset({"evidence_incomplete"}),
    ),
    Trick(
        name="pipe_for_a_file",
        does="puts a pipe in the place of a file, and another beside it",
        script="rm a.txt; mkfifo a.txt; mkfifo pipe",
        changed=_A,
        codes=frozenset({"special_file"}),
    ),
    Trick(
        name="link_for_a_folder",
        does="puts a link to a copy in the place of a folder",
        script='cp -R src "$OUTSIDE/copy"; rm -r src; ln -s "$OUTSIDE/copy" src',
        changed=frozenset({b"src", b"src/app.py", b"src/lib/core.py"}),
        codes=frozenset({"link_leads_outside"}),
    ),
    Trick(
        name="ring_of_links",
        does="leaves links that lead to each other and to their own folder",
        script="ln -s two one; ln -s one two; ln -s . here; ln -s ../../.. up",
        changed=frozenset({b"one", b"two", b"here", b"up"}),
        codes=frozenset({"link_leads_outside"}),
    ),
    Trick(
        name="hard_link",
        does="puts a second name of a file elsewhere in the place of a file",
        script='tr a x < a.txt > "$OUTSIDE/other"; rm a.txt; ln "$OUTSIDE/other" a.txt',
        changed=_A,
        codes=frozenset({"hard_link"}),
    ),
    Trick(
        name="odd_names",
        does="adds names with a line end, quotes, and bytes that are no text",
        script="touch -- \"$(printf 'two\\nlines')\" '\"q\" -> x' \"$(printf 'b\\377')\" -rf",
        changed=frozenset({b"two\nlines", b'"q" -> x', b"b\xff", b"-rf"}),
    ),
    Trick(
        name="far_times",
        does="gives a file a time in a far future",
        script="touch -d '2400-01-01' a.txt b.txt; echo x > a.txt; touch -d '2400-01-01' a.txt",
        changed=_A,
    ),
    Trick(
        name="sparse_giant",
        does="adds a file of 5 GB that takes no room",
        script="truncate -s 5G huge",
        changed=frozenset({b"huge"}),
    ),
    Trick(
        name="tree_removed",
        does="removes the worktree",
        script='cd "$REPO"; rm -r "$OLDPWD"',
        codes=frozenset({"evidence_incomplete"}),
        hides=True,
    ),
    Trick(
        name="tree_replaced",
        does="puts a link to the main checkout in the place of the worktree",
        script='tree="$PWD"; cd "$REPO"; mv "$tree" "$OUTSIDE/moved"; ln -s "$REPO" "$tree"',
        codes=frozenset({"evidence_incomplete"}),
        hides=True,
    ),
)
