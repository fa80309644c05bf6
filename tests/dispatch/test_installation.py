from __future__ import annotations

import base64
import hashlib
import importlib.util
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from dispatch import installation
from dispatch.installation import check_files, check_packages, check_permissions
from dispatch.settings import find_places


def _installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, bytes]) -> None:
    """Let the distribution be a wheel that recorded `files`, unpacked in `tmp_path`."""
    lines = []
    for name, data in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    info = tmp_path / "fleet_dispatch-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fleet-dispatch\nVersion: 0.1.0\n")
    (info / "RECORD").write_text("\n".join([*lines, f"{info.name}/RECORD,,"]) + "\n")
    found = metadata.PathDistribution(info)
    monkeypatch.setattr(installation.metadata, "distribution", lambda name: found)


def test_files_as_installed_pass_and_a_changed_one_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {"dispatch/cli.py": b"a", "worker/entry.py": b"b"}
    _installed(monkeypatch, tmp_path, files)
    assert check_files().ok
    assert "2 files" in check_files().detail
    (tmp_path / "worker/entry.py").write_bytes(b"B")
    finding = check_files()
    assert not finding.ok
    assert "worker/entry.py" in finding.detail
    assert "dispatch/cli.py" not in finding.detail


def test_a_missing_file_or_a_folder_in_its_place_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = {f"dispatch/m{n}.py": b"a" for n in range(7)}
    _installed(monkeypatch, tmp_path, names)
    for name in names:
        (tmp_path / name).unlink()
    (tmp_path / "dispatch/m0.py").mkdir()
    finding = check_files()
    assert not finding.ok
    assert "and 2 more" in finding.detail


def test_an_editable_installation_and_a_source_tree_have_nothing_to_compare(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _installed(monkeypatch, tmp_path, {})
    assert "editable" in check_files().detail

    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installation.metadata, "distribution", missing)
    assert check_files().ok


def test_a_package_that_is_hidden_by_a_folder_of_that_name_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert check_packages().ok
    real = importlib.util.find_spec

    def shadowed(name: str) -> object:
        if name == "worker":
            return SimpleNamespace(submodule_search_locations=[str(tmp_path / "worker")])
        return None if name == "runagent" else real(name)

    monkeypatch.setattr(installation.importlib.util, "find_spec", shadowed)
    finding = check_packages()
    assert not finding.ok
    assert str(tmp_path / "worker") in finding.detail
    assert "runagent is None" in finding.detail


def test_each_file_that_others_can_reach_is_named_with_its_remedy(tmp_path: Path) -> None:
    places = find_places({"FLEET_DISPATCH_HOME": str(tmp_path / "home")})
    assert check_permissions(places).ok
    for folder in (places.config_dir, places.keys_dir, places.state_dir):
        folder.mkdir(0o700)
    for file in (places.config_file, places.policy_file, places.keys_dir / "master.x.json"):
        file.touch(0o600)
    assert check_permissions(places).ok
    places.policy_file.chmod(0o644)
    places.state_dir.chmod(0o755)
    finding = check_permissions(places)
    assert not finding.ok
    assert f"chmod 600 {places.policy_file}" in finding.detail
    assert f"chmod 700 {places.state_dir}" in finding.detail


def test_on_windows_the_missing_check_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    assert check_permissions(find_places({"FLEET_DISPATCH_HOME": str(tmp_path)})).ok
