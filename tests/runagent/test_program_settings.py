"""Which settings make git start a program."""

from __future__ import annotations

import pytest

from runagent.around.program_settings import starts_program


@pytest.mark.parametrize(
    "record",
    [
        b"core.hookspath\n/x",
        b"core.FSMonitor\ntrue",
        b"core.pager\nless; evil",
        b"core.editor\nvi",
        b"diff.a.b.textconv\n/x",
        b"merge.ours.driver\n/x",
        b"url.ext::evil.insteadof\nhttps://",
        b"remote.o.proxy\n/x",
        b"credential.https://h.helper\n!x",
        b"gpg.ssh.program\n/x",
        b"alias.x\n!sh",
        b"submodule.x.update\n!sh",
        b"includeif.gitdir:/a.path\n/x",
        b"(unreadable) 12",
        b"filter.\xff.clean\n/x",
    ],
)
def test_a_setting_that_starts_a_program_is_known(record: bytes) -> None:
    assert starts_program(record)


@pytest.mark.parametrize(
    "record",
    [
        b"core.fsmonitor\nfalse",
        b"core.pager\n",
        b"alias.x\nlog --oneline",
        b"submodule.x.update\nrebase",
        b"submodule.x.path\nx",
        b"branch.master.merge\nrefs/heads/master",
        b"remote.origin.fetch\n+refs/heads/*:refs/remotes/origin/*",
        b"core.bare",
        b"user.name\nAda",
        b"push.default\nsimple",
    ],
)
def test_a_setting_that_starts_none_is_left_alone(record: bytes) -> None:
    assert not starts_program(record)
