"""The wheel: five packages on top and nothing else, `ops/` as data, a command that starts."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.source_tree import PACKAGES, PROJECT, product_files, relative


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel once, with the build backend that is installed and no index."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, PROJECT],
        check=True,
        capture_output=True,
        timeout=120,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone into a throw-away environment that borrows our dependencies."""
    folder = tmp_path_factory.mktemp("installed") / "a b"  # a space, as in many a home
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    python = folder / "bin" / "python"
    install = ["--disable-pip-version-check", "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, *install],
        check=True,
        capture_output=True,
        timeout=120,
    )
    (site,) = folder.glob("lib/python*/site-packages")
    borrowed = sysconfig.get_paths()["purelib"]
    # Appended by a plain path line, which runs no .pth of the lender: its editable install of this
    # checkout stays out of sight.
    (site / "borrowed.pth").write_text(f"{borrowed}\n")
    return folder


def _names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_top_level_is_the_five_packages_and_nothing_else(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in _names(wheel)}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == set(PACKAGES)


def test_every_module_and_every_type_marker_is_in_the_wheel(wheel: Path) -> None:
    names = set(_names(wheel))
    assert {relative(path) for path in product_files()} <= names
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_the_schemas_and_vectors_of_the_contract_are_in_the_wheel(wheel: Path) -> None:
    schemas = {relative(path) for path in (PROJECT / "contracts" / "schema").glob("*.json")}
    vectors = {relative(path) for path in (PROJECT / "contracts" / "vectors").glob("*.json")}
    assert schemas
    assert vectors
    assert schemas | vectors <= set(_names(wheel))


def test_what_a_machine_needs_besides_python_is_in_the_wheel_as_data(wheel: Path) -> None:
    data = {name.partition(".data/data/")[2] for name in _names(wheel) if ".data/data/" in name}
    assert "share/fleet-dispatch/ops/runbook.md" in data
    assert "share/fleet-dispatch/ops/redis/redis.conf" in data
    assert all(name.startswith("share/fleet-dispatch/ops/") for name in data)


def test_no_cache_and_no_test_travels_in_the_wheel(wheel: Path) -> None:
    strays = [name for name in _names(wheel) if "__pycache__" in name or name.startswith("tests/")]
    assert not strays


def test_the_installed_command_starts_from_any_folder_without_a_checkout(
    installed: Path, tmp_path: Path
) -> None:
    result = subprocess.run(
        [installed / "bin" / "fleet-dispatch", "--help"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert "run-agent" in result.stdout


def test_the_installed_command_uses_its_own_files_and_not_a_folder_of_the_same_name(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "worker").mkdir()
    (tmp_path / "worker" / "__init__.py").write_text("raise SystemExit('the wrong worker')\n")
    result = subprocess.run(
        [installed / "bin" / "fleet-dispatch", "listen", "--help"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stdout + result.stderr
