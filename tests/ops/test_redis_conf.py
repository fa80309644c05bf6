"""ops/redis/redis.conf, read by a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.source_tree import PROJECT


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        (b"appendonly", b"yes"),
        (b"appendfsync", b"everysec"),
        (b"maxmemory-policy", b"noeviction"),
        (b"protected-mode", b"yes"),
        (b"proto-max-bulk-len", b"67108864"),
    ],
)
def test_a_real_server_takes_the_file_and_its_promises(
    tmp_path: Path, setting: bytes, value: bytes
) -> None:
    # The test's own address and folder come after the file and win.
    include = (
        f'include "{PROJECT}/ops/redis/redis.conf"'  # a checkout may lie in a path with spaces
    )
    with running_broker(tmp_path / "broker", extra=[include]) as server, server.client() as client:
        found = client.config_get(setting.decode())
        assert found[setting.decode()] == value.decode() or found[setting] == value
