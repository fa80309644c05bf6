from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from contracts.errors import KeysRefused, Unavailable
from dispatch.private_files import (
    check_private_folder,
    make_private_folder,
    read_private_file,
    write_private_file,
)
from tests.support.unprivileged import open_folder, run_unprivileged


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_made_private_with_their_missing_parents(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert make_private_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert (_mode(tmp_path / "a"), _mode(tmp_path / "a" / "b")) == (0o700, 0o700)
    assert not make_private_folder(tmp_path / "a" / "b")


def test_a_folder_below_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="cannot make"):
        make_private_folder(tmp_path / "file" / "below")


def test_a_written_file_is_private_and_whole(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private_file(tmp_path / "k", b"secret", replace=False)
    finally:
        os.umask(before)
    assert _mode(tmp_path / "k") == 0o600
    assert read_private_file(tmp_path / "k") == b"secret"
    assert os.listdir(tmp_path) == ["k"]


def test_a_file_is_replaced_only_on_purpose(tmp_path: Path) -> None:
    write_private_file(tmp_path / "k", b"one", replace=False)
    with pytest.raises(FileExistsError):
        write_private_file(tmp_path / "k", b"two", replace=False)
    assert read_private_file(tmp_path / "k") == b"one"
    write_private_file(tmp_path / "k", b"two", replace=True)
    assert read_private_file(tmp_path / "k") == b"two"
    assert os.listdir(tmp_path) == ["k"]


def test_a_folder_that_is_not_there_is_unavailable_for_writing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot write"):
        write_private_file(tmp_path / "none" / "k", b"x", replace=True)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660, 0o777])
def test_a_file_that_others_can_reach_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "k"
    path.write_bytes(b"x")
    path.chmod(mode)
    with pytest.raises(KeysRefused, match=f"chmod 600 {path}") as refused:
        read_private_file(path)
    assert refused.value.code == "permissions"


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_a_folder_that_others_can_enter_is_refused_with_the_remedy(
    tmp_path: Path, mode: int
) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(KeysRefused, match=f"chmod 700 {folder}"):
        check_private_folder(folder)
    folder.chmod(0o700)
    check_private_folder(folder)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").touch()
    with pytest.raises(KeysRefused, match="not a folder"):
        check_private_folder(tmp_path / "keys")
    with pytest.raises(KeysRefused) as refused:
        check_private_folder(tmp_path / "none")
    assert refused.value.code == "missing"


def test_links_pipes_and_folders_are_not_read(tmp_path: Path) -> None:
    write_private_file(tmp_path / "real", b"x", replace=False)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(0o700)
    for name in ("link", "pipe", "folder"):
        with pytest.raises(KeysRefused):
            read_private_file(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_private_file(tmp_path / "none")


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    write_private_file(tmp_path / "big", b"x" * 100, replace=False)
    with pytest.raises(KeysRefused, match="larger than 10"):
        read_private_file(tmp_path / "big", max_bytes=10)


_READ = """
import sys
from pathlib import Path
from contracts.errors import FleetError
from dispatch.private_files import check_private_folder, make_private_folder, read_private_file
from dispatch.private_files import write_private_file
folder = Path(sys.argv[1]) / "keys"
make_private_folder(folder)
write_private_file(folder / "k", b"mine", replace=False)
check_private_folder(folder)
print("control", read_private_file(folder / "k").decode())
(folder / "k").chmod(0o644)
try:
    read_private_file(folder / "k")
except FleetError as error:
    print("refused", error.kind)
try:
    read_private_file(Path(sys.argv[2]))
except FleetError as error:
    print("foreign", error.kind, "another user" in str(error) or "cannot be opened" in str(error))
"""


def test_a_user_without_rights_reads_its_own_files_and_no_others(tmp_path: Path) -> None:
    with open_folder() as folder, open_folder() as foreign:
        key = foreign / "k"
        write_private_file(key, b"root's", replace=False)
        said = run_unprivileged(_READ, str(folder), str(key), home=folder)
    lines = said.splitlines()
    assert lines[:2] == ["control mine", "refused keys_refused"]
    if os.geteuid() == 0:
        assert lines[2] == "foreign keys_refused True"


def test_a_file_of_another_user_is_refused_though_we_could_read_it(tmp_path: Path) -> None:
    path = tmp_path / "k"
    write_private_file(path, b"x", replace=False)
    assert read_private_file(path) == b"x"
    if os.geteuid() == 0:
        os.chown(path, 65_534, 65_534)
        with pytest.raises(KeysRefused, match="another user"):
            read_private_file(path)
