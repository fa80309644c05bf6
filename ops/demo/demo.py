"""One signed job from end to end, in a temporary home: what `make demo` runs.

Uses the verbs as a person would: init, broker, listen, enqueue, result. Then looks for itself: is
the signature good and a changed one refused, does the job stand in the broker and in the listener's
journal, was the agent a child of the listener. stdout is the result's JSON and nothing else; what a
person reads goes to stderr. Everything that was started is ended, however the demo ends.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import redis

# The modules beside this file; the folder of a script is not always on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent))

import checks
from stage import (
    HOST,
    LANE,
    DemoFailed,
    Stage,
    broker_url,
    enqueue,
    free_port,
    make_stage,
    prepare_host,
    run_verb,
    running,
    say,
)
from stops import watch_signals
from witness import Witness

BRIEF = "The test of calc.add in test_calc.py fails. Mend calc.py; change nothing else."
SCRIPTED_WAIT_S = 40  # the scripted agent needs a second
REAL_WAIT_S = 900
NOBODY_WAIT_S = 5  # nothing will come when nobody listens


def tell_story(stage: Stage, options: argparse.Namespace) -> str:
    """Play the whole story on `stage`; return the result's JSON as the verb printed it."""
    with running(stage, "broker", "--port", str(free_port())) as (broker, log):
        url = broker_url(broker, log)
        stage.environment["FLEET_DISPATCH_REDIS_URL"] = url
        prepare_host(stage)
        if options.without_listener:
            say("no listener is started: this must fail")
            enqueue(stage, BRIEF, NOBODY_WAIT_S)
            raise DemoFailed("a result came although nobody listens")
        with running(stage, "listen", "--lane", LANE, "--host", HOST) as (listener, said):
            try:
                with Witness(listener.pid, stage.program) as witness:
                    job = enqueue(stage, BRIEF, SCRIPTED_WAIT_S if stage.scripted else REAL_WAIT_S)
            except DemoFailed:
                say(f"the listener said:\n{said.read_text(errors='replace')[-4000:]}")
                raise
            printed = run_verb(stage, "result", job)
            shown = json.loads(printed)
            with closing(redis.Redis.from_url(url, socket_timeout=5)) as client:
                checks.check_verdict(stage, shown)
                checks.check_signature(stage, client, job, shown)
                checks.check_records(stage, client, job)
            checks.check_ancestry(witness.ancestors, listener.pid)
    return printed


def main() -> int:
    """Run the demo; return 0 when everything holds."""
    parser = argparse.ArgumentParser(prog="demo.py", description="One signed job, end to end.")
    parser.add_argument("--agent", choices=("codex", "claude", "gemini", "grok"))
    parser.add_argument("--without-listener", action="store_true", help="show that it then fails")
    options = parser.parse_args()
    watch_signals()
    began = time.monotonic()
    scripted = options.agent is None
    if scripted:
        say("no model is called: a script named codex stands in for the agent")
    else:
        say(f"the real {options.agent} is called, with your own login; it may cost money")
    root = Path(tempfile.mkdtemp(prefix="fleet-demo-")).resolve()
    try:
        printed = tell_story(make_stage(root, options.agent or "codex", scripted=scripted), options)
    except DemoFailed as error:
        say(f"FAILED: {error}")
        return 1
    finally:
        shutil.rmtree(root, ignore_errors=True)
    say(f"all of it holds, after {time.monotonic() - began:.1f} s; the temporary home is removed")
    sys.stdout.write(printed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
