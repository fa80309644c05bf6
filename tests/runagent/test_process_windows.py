"""The Windows runner as text and structure: it was never run there, and says so."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from runagent import _job_object, _windows
from runagent._job_object import JobObject
from runagent._windows import pwsh_argv, pwsh_command, quote_pwsh, resolved_argv
from runagent.process import EndState, ProcessSpec, run


def spec_of(*argv: str, path: str = os.defpath) -> ProcessSpec:
    return ProcessSpec(argv=argv, cwd="/", env={"PATH": path}, timeout_s=5)


def test_the_modules_say_that_they_were_never_run_on_windows() -> None:
    for module in (_windows, _job_object):
        assert "NEVER BEEN RUN ON WINDOWS" in (module.__doc__ or "")


@pytest.mark.parametrize("prompt_on_stdin", [True, False])
def test_the_prompt_is_read_before_the_agent_is_named_and_a_failed_read_stops(
    prompt_on_stdin: bool,
) -> None:
    script = pwsh_command("C:\\run\\p.txt", ("codex", "exec", "-"), prompt_on_stdin=prompt_on_stdin)
    lines = script.splitlines()

    assert lines[0] == "$ErrorActionPreference = 'Stop'"
    assert lines[1].startswith("$p = Get-Content -Raw")
    assert all("codex" not in line for line in lines[:3])
    assert not any("Get-Content" in line and "|" in line for line in lines)
    assert lines[-1] == "exit $LASTEXITCODE"


def test_codex_gets_the_prompt_on_its_input_and_the_others_as_last_argument() -> None:
    assert "\n$p | & 'codex' 'exec' '-'\n" in pwsh_command(
        "p", ("codex", "exec", "-"), prompt_on_stdin=True
    )
    assert "\n& 'claude' '-p' $p\n" in pwsh_command("p", ("claude", "-p"), prompt_on_stdin=False)


@pytest.mark.parametrize("text", ["it's", "$(calc)", "`n", '"', "a;b|c&d", "''", "-x"])
def test_quoted_text_is_literal_and_cannot_end_its_quotes(text: str) -> None:
    quoted = quote_pwsh(text)

    assert quoted[0] == quoted[-1] == "'"
    assert quoted[1:-1].replace("''", "") == text.replace("'", "")
    assert quoted[1:-1].replace("''", "'") == text


def test_pwsh_starts_without_profile_or_questions() -> None:
    assert pwsh_argv("x") == (
        "pwsh",
        "-NoLogo",
        "-NoProfile",
        "-NonInteractive",
        "-Command",
        "x",
    )


@pytest.mark.parametrize("suffix", [".cmd", ".bat", ".ps1"])
def test_a_shim_goes_through_pwsh_and_an_executable_does_not(tmp_path: Path, suffix: str) -> None:
    shim = tmp_path / f"agent{suffix}"
    shim.touch(mode=0o755)
    real = tmp_path / "agent.exe"
    real.touch(mode=0o755)

    argv = resolved_argv(spec_of(shim.name, "it's", path=str(tmp_path)))
    assert argv is not None
    assert argv[0] == "pwsh"
    assert f"& '{shim}' 'it''s'" in argv[-1]
    assert resolved_argv(spec_of("agent.exe", "x", path=str(tmp_path))) == (str(real), "x")
    assert resolved_argv(spec_of("other", path=str(tmp_path))) is None


def test_the_structures_have_the_sizes_of_64_bit_windows() -> None:
    assert ctypes.sizeof(_job_object._BasicLimits) == 64
    assert ctypes.sizeof(_job_object._ExtendedLimits) == 144
    assert ctypes.sizeof(_job_object._Accounting) == 48


def test_a_process_starts_suspended_and_the_job_kills_on_close() -> None:
    text = Path(_windows.__file__).read_text(encoding="utf-8")

    assert "creationflags=CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW" in text
    assert text.index("subprocess.Popen(") < text.index("job.adopt(")
    assert _job_object.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE == 0x2000


def test_elsewhere_it_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Windows only"):
        JobObject()
    outcome = run(_windows.WindowsRunner(), spec_of("true"))

    assert outcome.state is EndState.NOT_STARTED
    assert "Windows" in outcome.why
