"""Does a shell command hide the exit code of a part of itself?"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.masking import masks_exit_code

MASKED = [
    "pytest || true",
    "pytest||true",
    "pytest || :",
    "pytest ||  /bin/true",
    "pytest || exit 0",
    "pytest || echo failed",
    "pytest || (true)",
    "pytest || { true; }",
    "(pytest) || true",
    "pytest || true # it is flaky",
    "pytest || cat log.txt",
    "pytest || { cat log; exit 2; }",
    "npm test || npm run other",
    "pytest; true",
    "pytest;true",
    "pytest ; exit 0",
    "pytest\ntrue\n",
    "pytest; echo done",
    "pytest; mypy .",
    "pytest\r\nmypy .",
    "(pytest; mypy .)",
    "for f in a b; do pytest $f; done",
    "pytest &",
    "pytest & wait",
    "pytest&",
    "! pytest",
    "trap 'exit 0' EXIT; pytest",
    "set -e; pytest || true",
    "set -e\nset +e\npytest\nmypy .",
    "bash -c 'pytest || true'",
    "sh -ec 'pytest; true' ; true",
    'bash -lc "pytest | tail"',
    "/bin/sh -c 'pytest; true'",
    "pytest 'unclosed",
    'pytest "unclosed',
    "pytest \\",
    "pytest || exit $CODE",
    'pytest || exit "0"',
    "pytest || exit 00",
    "pytest || exit 256",
    "eval 'pytest || true'",
    "bash -c 'pytest; true' name",
    "env A=1 bash -c 'pytest; true'",
    "timeout 60 bash -c 'pytest; true'",
    "A=1 bash -c 'pytest; true'",
    "coproc pytest",
    '[ -n "$(pytest)" ]',
    "[[ $(pytest) ]]",
    "test -z `pytest`",
    "export OUT=$(pytest)",
    "diff <(pytest) expected",
    "echo $(pytest)",
    'echo "$(pytest)"',
    "printf %s `pytest`",
    "set +o pipefail; pytest",
    "cd x && pytest || true",
    "A=1 pytest || true",
    "pytest 2>&1 || true",
    "pytest &>log || true",
    "pytest >| log; true",
    "cat <<E\nx\nE\npytest\ntrue",
    "case x in a) pytest;; esac; true",
    "if pytest; then true; fi",
    "x=$(pytest) true",
    'X="$(pytest)" make',
    "cd sub; x=`pytest` true",
    "set -e; if pytest; then true; fi",
    "set -e; while pytest; do break; done",
    "set -e; pytest && true; true",
    "set -e\npytest && mypy .\necho done",
    "pytest; set -e",
    "pytest\nset -e\nmypy .",
    "command true $(pytest)",
    'bash <<< "pytest; true"',
    'source /dev/stdin <<< "pytest; true"',
]

HONEST = [
    "pytest || exit $?",
    "pytest || exit 2",
    "pytest || exit",
    "timeout 60 pytest",
    "env A=1 bash -c 'pytest -q'",
    "test -f built && [ -x built ]",
    "OUT=$(pytest)",
    "eval 'pytest -q'",
    "pytest -q",
    "npm test",
    "make -C sub test",
    "cd sub && pytest",
    "cd sub; pytest",
    "A=1; pytest",
    "export A=1; pytest",
    "pytest && mypy .",
    "pytest &&\n mypy .",
    "set -e; pytest; mypy .",
    "set -eu\npytest\nmypy .\n",
    "set -o errexit\npytest\nmypy .",
    "pytest;",
    "pytest\n",
    "pytest ; \n",
    "true",
    "echo ok",
    "exit 0",
    "pytest -k 'a or b | c || true; true &'",
    'pytest -k "a; true"',
    "pytest -k a\\;b",
    "pytest # || true",
    "pytest || exit 1",
    "cd x || exit 1; pytest",
    "pytest || false",
    "pytest > log 2>&1",
    "pytest &> log",
    "pytest >& log",
    "pytest && echo ok",
    "cd $(git rev-parse --show-toplevel) && make",
    "bash -c 'pytest -q'",
    "sh -c 'set -e; a; b'",
    "pytest foo#bar",
    "pytest \\\n -q",
    "pytest \\\r\n -q",
    "",
    "# nothing",
    "( pytest )",
    "bash run.sh",
    "a=b",
    ". venv/bin/activate; pytest",
    "<in pytest",
    "2>err pytest",
    "pytest {a,b}",
    "& pytest",
    "echo ok && pytest",
    "set -x; pytest",
    "sh -c",
    "set -e; if [ -d sub ]; then cd sub; fi; pytest",
    "set -e; [ -d sub ] && cd sub; pytest",
    "set -e; pytest && mypy .",
    "set -e; cd sub && pytest",
    "command pytest",
    "x=$(git rev-parse HEAD)",
    "bash run.sh < input",
    "bash -x -c 'pytest'",
]

PIPES = ["pytest | tail", "pytest 2>&1 | tee log", "pytest|tail -1", "(pytest) | cat", "a |& b"]


@pytest.mark.parametrize("command", MASKED)
@pytest.mark.parametrize("pipefail", [True, False])
def test_a_command_that_hides_a_failure_is_seen(command: str, pipefail: bool) -> None:
    assert masks_exit_code(command, pipefail=pipefail)


@pytest.mark.parametrize("command", HONEST)
@pytest.mark.parametrize("pipefail", [True, False])
def test_a_command_whose_exit_code_says_all_is_left_alone(command: str, pipefail: bool) -> None:
    assert not masks_exit_code(command, pipefail=pipefail)


@pytest.mark.parametrize("command", PIPES)
def test_a_pipe_hides_a_failure_unless_the_shell_has_pipefail(command: str) -> None:
    assert masks_exit_code(command)
    assert not masks_exit_code(command, pipefail=True)


def test_a_shell_inside_does_not_inherit_pipefail() -> None:
    assert masks_exit_code("bash -c 'pytest | tail'", pipefail=True)


def test_shells_inside_shells_are_followed_for_a_while_and_then_doubted() -> None:
    for depth, masked in ((1, False), (4, False), (6, True)):
        command = "pytest"
        for _ in range(depth):
            command = f"sh -c {shlex.quote(command)}"
        assert masks_exit_code(command) is masked


@pytest.mark.skipif(shutil.which("bash") is None, reason="the rules are those of a POSIX shell")
def test_a_real_shell_agrees_that_each_simple_mask_hides_a_failure(tmp_path: Path) -> None:
    masks = ["X || true", "X || :", "X; true", "X; exit 0", "X &", "! X", "(X; true)", "echo $(X)"]
    for mask in masks:
        command = mask.replace("X", "false")
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=tmp_path)
        assert done.returncode == 0, mask
        assert masks_exit_code(command, pipefail=True), mask


_PIECES = [
    "false",
    "true",
    "cd .",
    " && ",
    " || ",
    "; ",
    "\n",
    " | ",
    "(",
    ")",
    "exit 1",
    "! ",
    "'",
    "&",
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="the rules are those of a POSIX shell")
@given(st.lists(st.sampled_from(["&&", "||", ";", "|", "\n"]), min_size=1, max_size=3), st.data())
def test_no_list_of_commands_with_a_failing_part_passes_unseen(
    operators: list[str], data: st.DataObject
) -> None:
    words = [
        data.draw(st.sampled_from(["false", "(false)", "test -d ."]))
        for _ in range(len(operators) + 1)
    ]
    command = words[0] + "".join(
        f" {op} {word}" for op, word in zip(operators, words[1:], strict=True)
    )
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True)
    hidden = done.returncode == 0 and "false" in command and "&&" not in operators
    if hidden and "||" not in operators:
        assert masks_exit_code(command, pipefail=True)
    if done.returncode == 0 and words[0] in ("false", "(false)") and operators[0] == "||":
        assert masks_exit_code(command, pipefail=True)


@given(st.text(max_size=60) | st.lists(st.sampled_from(_PIECES), max_size=12).map("".join))
def test_any_text_gets_an_answer(command: str) -> None:
    assert masks_exit_code(command) in (True, False)
    if masks_exit_code(command, pipefail=True):
        assert masks_exit_code(command)


def test_the_longest_command_gets_its_answer_in_time() -> None:
    for text in ("a" * 65_536, "'" * 65_535, '"\\' * 32_000, "a;" * 32_000, "(" * 65_536):
        assert masks_exit_code(text) in (True, False)


# Every one of these ends with 0 though the program `fails` ran in it and failed: tried below.
_REAL_MASKS = [
    "fails || true",
    "fails; true",
    "fails & wait",
    "(fails); true",
    "{ fails; true; }",
    "! fails",
    "if fails; then :; fi",
    "while fails; do :; done",
    "until ! fails; do break; done",
    "for i in 1; do fails; done; true",
    "f() { fails; true; }; f",
    "f() { fails || return 0; }; f",
    "trap 'exit 0' EXIT; fails",
    'test -z "$(fails)"',
    "echo `fails`",
    "x=$(fails); true",
    "x=$(fails) true",
    "sh -c 'fails | cat'",
    "sh -c 'fails; true'",
    "sh -c 'fails' || :",
    "eval 'fails; true'",
    "timeout 30 sh -c 'fails; true'",
    "set -e; fails || true",
    "set -e; if fails; then :; fi",
    "set -e; fails && true; true",
    "set -e; set +e; fails; true",
    "set +e; fails; true",
    "fails; set -e",
    "case x in x) fails; true;; esac",
    "fails\ntrue",
    "fails \\\n || true",
    "command true $(fails)",
    "fails || { echo; }",
    "(set +e; fails; true)",
    "cd . ; fails ; cd .",
    "fails && echo ok || echo bad",
    "fails; wait",
    "fails > /dev/null; echo $?",
    "cat <<E\n$(fails)\nE",
    "while true; do fails; break; done",
    "sh -c 'set -e; fails; true'; true",
]


@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
def test_real_shells_agree_that_each_of_these_hides_a_failure(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"platform: no {shell} here")
    program = tmp_path / "fails"
    program.write_text(f'#!/bin/sh\n: > "{tmp_path}/ran"\nexit 1\n')
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.defpath}:/usr/local/bin"}
    unseen = []
    for command in _REAL_MASKS:
        (tmp_path / "ran").unlink(missing_ok=True)
        done = subprocess.run(
            [shell, "-c", command], cwd=tmp_path, env=environment, capture_output=True, timeout=60
        )
        assert done.returncode == 0, f"the control: {command}"
        if not masks_exit_code(command, pipefail=True):
            unseen.append(command)
    assert not unseen
    assert (tmp_path / "ran").exists()
