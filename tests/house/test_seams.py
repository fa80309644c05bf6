"""Each dangerous name has its seams: these files may use it and no other file may."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.support.source_tree import names_used, parse, product_files, relative

# The process seam: the two runners, the warden, and the private modules that they are made of.
_PROCESS = {
    name
    for name in map(relative, product_files())
    if name.startswith("runagent/_") or name == "runagent/warden.py"
} - {"runagent/__init__.py"}
_ENVIRONMENT = {"runagent/environment.py", "dispatch/settings.py", "worker/settings.py"}
_CLOCK = {"contracts/clock.py"}

SEAMS: dict[str, set[str]] = {
    "subprocess": _PROCESS,
    "os.system": set(),
    "os.popen": set(),
    "os.fork": _PROCESS,
    "os.forkpty": set(),
    "os.posix_spawn": _PROCESS,
    "os.environ": _ENVIRONMENT,
    "os.getenv": _ENVIRONMENT,
    "os.putenv": set(),
    "pickle": set(),
    "marshal": set(),
    "shelve": set(),
    "time.time": _CLOCK,
    "time.sleep": set(),
    "datetime.datetime.now": set(),
    "datetime.datetime.utcnow": set(),
    "random": set(),
    "importlib.import_module": {"dispatch/cli.py"},
    "tempfile.mktemp": set(),
}


@functools.cache
def _used_in(path: Path) -> frozenset[str]:
    return frozenset(names_used(parse(path)))


@pytest.mark.parametrize("name", SEAMS)
def test_a_name_with_a_seam_is_used_in_its_seam_alone(name: str) -> None:
    users = {
        relative(path)
        for path in product_files()
        if any(used == name or used.startswith(f"{name}.") for used in _used_in(path))
    }
    assert users <= SEAMS[name]


@pytest.mark.parametrize("package", ["redis", "rq"])
def test_the_broker_is_reached_from_two_floors_only(package: str) -> None:
    users = {
        relative(path).partition("/")[0]
        for path in product_files()
        if any(used.partition(".")[0] == package for used in _used_in(path))
    }
    assert users <= {"dispatch", "worker"}


# All of RQ that is used: its job's shape, and the classes that worker/sealed.py closes. No pool of
# workers, no spawning worker (it pickles), no scheduler, no registry, no maintenance.
_OF_RQ = {
    "rq.job.Job",
    "rq.job.JobStatus",
    "rq.queue.Queue",
    "rq.serializers.JSONSerializer",
    "rq.utils.now",
    "rq.utils.utcformat",
    "rq.worker.BaseWorker",
}


def test_of_rq_only_its_job_queue_and_bare_worker_are_used() -> None:
    used = {
        name
        for path in product_files()
        for name in _used_in(path)
        if name.partition(".")[0] == "rq"
    }
    assert not [
        name
        for name in used
        if not any(name == known or name.startswith(f"{known}.") for known in _OF_RQ)
    ]


def test_git_is_reached_from_one_module_only() -> None:
    users = {
        relative(path)
        for path in product_files()
        if any(used.partition(".")[0] == "git" for used in _used_in(path))
    }
    assert users <= {"runagent/git/trusted_git.py"}
