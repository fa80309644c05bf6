"""The project's own files, as the tests of its rules see them. Reads; never imports the product."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("contracts", "validation", "runagent", "dispatch", "worker")
_NOT_OURS = {".git", ".venv", "build", "dist", "htmlcov"}


def product_files() -> list[Path]:
    """Return every Python file of the five packages."""
    return sorted(path for name in PACKAGES for path in (PROJECT / name).rglob("*.py"))


def files_of_tests() -> list[Path]:
    """Return every Python file under tests/."""
    return sorted((PROJECT / "tests").rglob("*.py"))


def all_text_files() -> Iterator[Path]:
    """Yield every file a person may read, caches and other people's folders left out."""
    for path in sorted(PROJECT.rglob("*")):
        parts = path.relative_to(PROJECT).parts
        if parts[0] in _NOT_OURS or any(_is_cache(part) for part in parts):
            continue
        if path.is_file() and path.suffix in _TEXT:
            yield path


_TEXT = {"", ".py", ".md", ".toml", ".sh", ".json", ".conf", ".acl", ".txt", ".service"}


def _is_cache(part: str) -> bool:
    return part == "__pycache__" or part.endswith((".egg-info", "_cache")) or part == ".hypothesis"


def relative(path: Path) -> str:
    """Return the path as the rules write it: relative, with forward slashes."""
    return path.relative_to(PROJECT).as_posix()


def module_name(path: Path) -> str:
    """Return the dotted name under which `path` is imported."""
    parts = list(path.relative_to(PROJECT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of `path`."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a chain of names, otherwise ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else ""
    return ""


def names_used(tree: ast.Module) -> set[str]:
    """Return the full names that a module imports or reaches: imports resolved, aliases undone."""
    origin = dict(_bindings(tree))
    used = set(origin.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            head, _, rest = dotted(node).partition(".")
            if head in origin:
                used.add(f"{origin[head]}.{rest}")
    return used


def _bindings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (name in the module, full name) for every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                top = name.name.partition(".")[0]
                yield name.asname or top, name.name if name.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for name in node.names:
                yield name.asname or name.name, f"{node.module}.{name.name}"
