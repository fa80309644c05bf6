"""The desk of the sender that `tests.support.hosts` knows: the real verbs, with its own keys."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from dispatch.sent import SentJob, SentJobs
from tests.support.fleet import PROGRAM, Machine
from tests.support.hosts import LANE, SENDER, Host


class SenderDesk(Machine):
    """A machine from which `host`'s sender works; `redis_url` may lead through a proxy."""

    @classmethod
    def of(cls, host: Host, redis_url: str = "") -> SenderDesk:
        """Return the desk of the sender who was granted `host`."""
        folder = host.sender.keys_dir.parent
        home = folder.parent / "desk"
        home.mkdir(exist_ok=True)
        extra = {"FLEET_DISPATCH_HOME": str(folder), "USER": SENDER}
        return cls(home, home / "bin", redis_url or host.broker.url, "DESK", extra)

    @property
    def sent(self) -> SentJobs:
        """Return the sender's own record."""
        home = Path(self.environment["FLEET_DISPATCH_HOME"])
        return SentJobs(home / "state" / "sent.sqlite3")

    def recorded(self) -> list[SentJob]:
        """Return what the sender has signed, newest first; [] before it has a record."""
        return self.sent.recent(100)

    def enqueue_words(self, host: Host, *words: str, for_lane: bool = False, task: str = "") -> Any:
        """Return the words of an enqueue of an honest job for `host` or its lane."""
        payload = host.payload(**({"task": task} if task else {}))
        file = self.home / "job.json"
        file.write_text(json.dumps(payload))
        target = () if for_lane else ("--targets", host.name)
        return ("enqueue", "--lane", LANE, *target, "--payload-file", str(file), *words)

    def enqueue(self, host: Host, *words: str, for_lane: bool = False, task: str = "") -> Any:
        """Enqueue an honest job and return what the verb says of it."""
        given = self.enqueue_words(host, *words, for_lane=for_lane, task=task)
        (job,) = self.read_json(*given)["jobs"]
        return job

    def row(self, job_id: str) -> Any:
        """Return what `jobs` says of a job."""
        return next(row for row in self.read_json("jobs")["jobs"] if row["jobId"] == job_id)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a verb and return its process; whoever starts it ends it."""
        return subprocess.Popen(
            [PROGRAM, *words],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
