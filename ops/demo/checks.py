"""What the demo looks at for itself, after the verbs have spoken."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing
from typing import Any

import redis
from stage import BROKEN, CHECK, HOST, SENDER, START_S, DemoFailed, Stage, git, say, wait_for

from contracts import naming
from contracts.clock import SystemClock
from contracts.dispatch_result import DispatchResult, ResultClaims
from contracts.envelope import RESULT_TYPE, open_envelope
from contracts.errors import EnvelopeRefused
from dispatch.keyring import SenderKeyring


def require(holds: object, what: str) -> None:
    """Say `what` when it holds; raise DemoFailed otherwise."""
    if not holds:
        raise DemoFailed(f"not so: {what}")
    say(f"ok: {what}")


def check_verdict(stage: Stage, result: dict[str, Any]) -> None:
    """The host's verdict, and the main checkout as it was."""
    require(result["status"] == "completed", "the status is completed")
    require("calc.py" in result["changed_files"], "the host saw the change in calc.py")
    require(result["tests_attempted"] == [f"{CHECK} => exit 0"], "the host ran the test: exit 0")
    if stage.scripted:
        require(result["needs_human_review"] is False, "no risk was recorded, no review is needed")
    same = (stage.repo / "calc.py").read_text() == BROKEN
    require(same and git(stage, "status", "--porcelain") == "", "the main checkout is untouched")


def check_signature(stage: Stage, client: redis.Redis, job: str, shown: dict[str, Any]) -> None:
    """The signed result in the broker verifies, says what was shown, and cannot be changed."""
    stored = client.get(naming.result_key(job))
    require(isinstance(stored, bytes), "the signed result stands in the broker")
    assert isinstance(stored, bytes)
    keys = SenderKeyring.load(stage.fleet / "keys", SENDER, SystemClock())
    claims = ResultClaims.model_validate_json(open_envelope(stored, keys, RESULT_TYPE).payload)
    signed = (claims.iss, claims.aud, claims.jti) == (HOST, SENDER, job)
    require(signed, f"its signature holds, by {HOST} for {SENDER}")
    answer: DispatchResult = claims.payload
    require(
        answer.ok and json.loads(answer.stdoutTail) == shown, "what was shown is what was signed"
    )
    outer = json.loads(stored)
    payload = base64.b64decode(outer["payload"]).replace(b'"ok":true', b'"ok":null')
    outer["payload"] = base64.b64encode(payload).decode()
    try:
        open_envelope(json.dumps(outer), keys, RESULT_TYPE)
    except EnvelopeRefused:
        say("ok: the same result with one word changed is refused")
    else:
        raise DemoFailed("a changed result was accepted")


def check_records(stage: Stage, client: redis.Redis, job: str) -> None:
    """The job stands in the broker and, with every step, in the listener's journal."""
    require(client.exists(naming.job_key(job)), "the job stands in the broker")
    journal = stage.fleet / "state" / "journal.sqlite3"
    with closing(sqlite3.connect(journal, timeout=5)) as database:
        rows = database.execute("SELECT count(*) FROM jobs WHERE jti = ?", (job,)).fetchone()
        require(rows == (1,), "the job stands once in the listener's journal")

        def look() -> list[str] | None:
            query = "SELECT state FROM transitions WHERE job = ? ORDER BY id"
            states = [state for (state,) in database.execute(query, (job,))]
            return states if "published" in states else None

        states = wait_for("the journal's last step", look, START_S)
    require(states.count("started") == 1, f"it was started once: {' > '.join(states)}")


def check_ancestry(ancestors: list[int], listener: int) -> None:
    """The agent was seen at work below the listener."""
    require(listener in ancestors, f"the agent's ancestor is the listener, process {listener}")
