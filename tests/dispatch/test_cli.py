from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from contracts.errors import (
    CouldNotCheck,
    FleetError,
    InvalidRequest,
    KeysRefused,
    Problem,
    Unavailable,
    WaitTimedOut,
)
from dispatch.cli import VERBS, load_named
from dispatch.commands.boundary import boundary
from tests.dispatch.conftest import Said

Say = Callable[..., Said]

_OURS = [name for name, verb in VERBS.items() if verb.target.startswith("dispatch.")]


def test_help_imports_click_and_none_of_the_heavy_packages() -> None:
    code = (
        "import sys\n"
        "from dispatch.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'redis', 'rq', 'pydantic', 'cryptography', 'git', 'psutil'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "[]"
    assert all(
        name in done.stdout and verb.help.split()[0] in done.stdout for name, verb in VERBS.items()
    )


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_of_the_table_is_there(name: str) -> None:
    assert isinstance(load_named(VERBS[name].target), click.Command)


def _leaves(
    command: click.Command, path: tuple[str, ...]
) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            found += _leaves(inner, (*path, name))
    return found


@pytest.mark.parametrize("name", _OURS)
def test_every_help_has_an_example_and_every_verb_speaks_json(name: str, say: Say) -> None:
    for path, command in _leaves(load_named(VERBS[name].target), (name,)):
        said = say(*path, "--help")
        assert said.code == 0
        assert "Example" in said.out, path
        assert f"fleet-dispatch {name}" in said.out.partition("Example")[2], path
        if not isinstance(command, click.Group):
            assert "--json" in said.out, path


def test_the_version_is_one_line(say: Say) -> None:
    said = say("--version")
    assert said.code == 0
    assert said.out.startswith("fleet-dispatch ")


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("jobs", "--nonsense"),
        ("jobs", "extra"),
        ("enqueue", "--payload-file", "x"),
        ("enqueue", "--lane", "A"),
        ("wait",),
        ("keys", "nonsense"),
        ("keys", "grant", "PC"),
        ("jobs", "--limit", "many"),
    ],
)
def test_what_cannot_be_resolved_is_an_error_and_never_dropped(
    words: tuple[str, ...], say: Say
) -> None:
    said = say(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err
    with_json = say(*words, "--json")
    assert with_json.code == 2
    assert json.loads(with_json.out)["error"]["kind"] == "usage"


def test_a_verb_that_fails_to_load_is_our_bug_and_no_traceback_to_people(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dispatch.cli import Verb

    monkeypatch.setitem(VERBS, "jobs", Verb("dispatch.commands.none:command", "x"))
    said = say("jobs", "--json")
    assert said.code == 1
    assert "Traceback" not in said.err
    assert json.loads(said.out)["error"]["kind"] == "bug"


def _verb(raised: BaseException | None = None, answer: object = None) -> Callable[..., object]:
    @boundary
    def verb(*, as_json: bool) -> object:
        if raised is not None:
            raise raised
        return answer

    return verb


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (InvalidRequest([Problem("a", "b", "c"), Problem("d", "e", "f")]), 2, "invalid_request"),
        (KeysRefused("no", code="missing"), 2, "keys_refused"),
        (Unavailable("away", remedy="start it"), 2, "unavailable"),
        (WaitTimedOut("late"), 3, "wait_timed_out"),
        (CouldNotCheck("hm"), 4, "could_not_check"),
    ],
)
def test_an_error_of_ours_becomes_words_and_its_exit_code(
    error: FleetError, code: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        _verb(error)(as_json=True)
    out, err = capsys.readouterr()
    document = json.loads(out)["error"]
    assert (ended.value.code, document["kind"]) == (code, kind)
    assert "error: " in err
    if isinstance(error, InvalidRequest):
        assert [item["field"] for item in document["problems"]] == ["a", "d"]
    with pytest.raises(SystemExit):
        _verb(error)(as_json=False)
    assert capsys.readouterr().out == ""


def test_an_unknown_exception_is_our_bug_and_says_nothing_of_its_content(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as ended:
        _verb(RuntimeError("secret"))(as_json=True)
    out, err = capsys.readouterr()
    assert ended.value.code == 1
    assert json.loads(out)["error"]["kind"] == "bug"
    assert "secret" not in out + err
    monkeypatch.setenv("FLEET_DISPATCH_DEBUG", "1")
    with pytest.raises(SystemExit):
        _verb(RuntimeError("secret"))(as_json=False)
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _verb(KeyboardInterrupt())(as_json=True)
    assert ended.value.code == 4
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "interrupted"


def test_the_answer_of_a_verb_is_its_exit_code() -> None:
    assert _verb(answer=None)(as_json=False) is None
    assert _verb(answer=0)(as_json=False) == 0
    assert _verb(answer=True)(as_json=False) is True
    with pytest.raises(SystemExit) as ended:
        _verb(answer=5)(as_json=False)
    assert ended.value.code == 5


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    code = "from dispatch.cli import main\nmain(['keys', '--help'])\n"
    reader = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert reader.stdout is not None
    reader.stdout.close()
    _, err = reader.communicate(timeout=60)
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    "words",
    [["config", "show", "--json"], ["keys", "list", "--json"], ["--help"], ["nothing", "--json"]],
    ids=" ".join,
)
def test_an_output_that_takes_no_more_is_said_without_a_traceback(
    words: list[str], tmp_path: Path
) -> None:
    program = Path(sys.executable).with_name("fleet-dispatch")
    environ = {"PATH": os.environ["PATH"], "FLEET_DISPATCH_HOME": str(tmp_path), "USER": "alice"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [program, *words],
            env=environ,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert "Traceback" not in done.stderr
    assert "cannot write to standard output" in done.stderr
    assert done.returncode in (2, 4)


def test_the_help_of_a_verb_with_verbs_cuts_no_sentence_short() -> None:
    groups = {
        name: found
        for name, verb in VERBS.items()
        if isinstance(found := load_named(verb.target), click.Group)
    }
    assert {"keys", "worktrees", "service", "job"} <= set(groups)
    for name, group in groups.items():
        said = CliRunner().invoke(group, ["--help"], terminal_width=80).output
        listed = said.partition("Verbs:")[2]
        assert listed and "..." not in listed, name
        assert all(sub in listed for sub in group.commands), name


def test_a_verb_that_ends_looks_for_no_garbage_among_what_it_loaded() -> None:
    code = (
        "import atexit, gc\n"
        "atexit.register(lambda: print('held', gc.get_freeze_count(), gc.get_count()[0]))\n"
        "from dispatch.cli import main\n"
        "main(['--version'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    held, young = done.stdout.splitlines()[-1].split()[1:]
    assert (done.returncode, int(held) > 1_000, int(young) < 100) == (0, True, True)
