"""What every module has: a size that one can read, a docstring, and no platform it insists on."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.source_tree import PROJECT, module_name, parse, product_files, relative

SIZE_AIM = 250
SIZE_LIMIT = 400
# A module beyond the aim, with the reason why it reads better whole. Empty is best.
LARGER_BY_CHOICE: dict[str, str] = {}

# Everything below happens in a process of its own. psutil and asyncio are loaded first: they choose
# their own platform's half, which is the very thing that is taken away here.
_IMPORT_WITHOUT_POSIX = """
import importlib, os, sys
import asyncio, psutil
for name in ("fcntl", "pwd", "grp", "resource", "termios", "pty", "tty"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "posix_spawn", "killpg", "setsid", "getpgid", "getuid", "geteuid",
             "getgid", "fchmod", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "statvfs"):
    if hasattr(os, name):
        delattr(os, name)
failed = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed.append(f"{name}: {type(error).__name__}: {error}")
print("\\n".join(failed))
sys.exit(bool(failed))
"""

_FILES = product_files()


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("path", _FILES, ids=relative)
def test_a_module_is_short_enough_to_read(path: Path) -> None:
    name, lines = relative(path), _lines(path)
    assert lines <= SIZE_LIMIT, f"{name} has {lines} lines: split it by noun"
    if lines > SIZE_AIM:
        assert LARGER_BY_CHOICE.get(name), f"{name} has {lines} lines and no reason to be so long"


def test_a_reason_to_be_long_is_dropped_when_it_is_not_needed_any_more() -> None:
    stale = [name for name in LARGER_BY_CHOICE if _lines(PROJECT / name) <= SIZE_AIM]
    assert not stale


def test_a_test_module_stays_within_the_hard_limit() -> None:
    long = {relative(p): _lines(p) for p in (PROJECT / "tests").rglob("*.py")}
    assert not {name: lines for name, lines in long.items() if lines > SIZE_LIMIT}


@pytest.mark.parametrize("path", _FILES, ids=relative)
def test_a_module_says_what_it_owns_and_its_public_things_say_what_they_do(path: Path) -> None:
    tree = parse(path)
    assert (ast.get_docstring(tree) or "").strip(), "no module docstring"
    missing = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and _is_public_here(tree, node)
        and not ast.get_docstring(node)
    ]
    assert not missing, f"no docstring: {missing}"


def _is_public_here(tree: ast.Module, node: ast.AST) -> bool:
    """Say whether `node` is at the module's top, or a member of a public class there."""
    if node in tree.body:
        return True
    return any(
        isinstance(owner, ast.ClassDef) and not owner.name.startswith("_") and node in owner.body
        for owner in tree.body
    )


def test_every_module_imports_without_what_only_posix_has() -> None:
    names = [module_name(path) for path in _FILES if path.name != "warden.py"]
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _IMPORT_WITHOUT_POSIX, *names],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_package_carries_its_types() -> None:
    packages = {path.parent for path in _FILES if path.parent.parent == PROJECT}
    assert all((package / "py.typed").is_file() for package in packages)
