"""One scenario played: a host, a job for every CLI, and what came of it against the table."""

from __future__ import annotations

import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.real.cases import Case, Scenario
from tests.real.checks import differences
from tests.real.report import Row
from tests.real.stage import STOPPED, Outcome, Stage
from tests.support.broker import running_broker
from tests.support.model.server import ModelServer


def play(
    folder: Path,
    scenario: Scenario,
    programs: Path,
    model: ModelServer,
    agents: set[str],
) -> list[Row]:
    """Play `scenario` in `folder` (made here) and return a row for each of `agents`."""
    cases = [case for case in scenario.cases if case.agent in agents]
    if STOPPED.is_set():
        return []
    try:
        # A broker of its own: a limit that one scenario reports closes the agent to all of a fleet.
        with running_broker(folder / "broker") as broker:
            stage = Stage(folder, scenario, programs, broker, model)
            with stage.listening(), ThreadPoolExecutor(len(cases)) as pool:
                outcomes = list(pool.map(lambda case: _run(stage, case), cases))
        left = stage.survivors(stage.folder)
        outside = stage.files_outside()
    except Exception:  # noqa: BLE001 - a stage's trouble is told with each of its cases, whatever it is
        told = traceback.format_exc()[-3_000:]
        outcomes = [Outcome(0.0, None, problems=(told,)) for _ in cases]
        left, outside = [], []
    rows = []
    for case, outcome in zip(cases, outcomes, strict=True):
        wrong = differences(scenario, case, outcome)
        wrong += [f"a process outlived the host: {line}" for line in left]
        if scenario.sandbox != "none":
            wrong += [f"written through the sandbox: {name}" for name in outside]
        rows.append(Row(scenario, case, outcome, tuple(wrong)))
    return rows


def _run(stage: Stage, case: Case) -> Outcome:
    """Run one case; what goes wrong with it is told with it and stops no other."""
    try:
        return _carry_out(stage, case)
    except Exception:  # noqa: BLE001 - as above
        return Outcome(0.0, None, problems=(traceback.format_exc()[-3_000:],))


def _carry_out(stage: Stage, case: Case) -> Outcome:
    began = time.monotonic()
    job = stage.send(case)
    if job.startswith("!"):
        return Outcome(time.monotonic() - began, None, refusal=job[1:])
    result = stage.receive(job, case.at_most + 60)
    seconds = time.monotonic() - began
    problems = []
    if result is not None:
        tree = str(result.get("worktreePath") or "")
        if tree:
            left = stage.survivors(Path(tree))
            problems += [f"a process outlived the job: {line}" for line in left]
        changed = stage.checkout_problem(case.agent)
        if changed:
            problems.append(f"the main checkout changed: {changed}")
        if case.committed and stage.commits(case.agent, result["branch"]) != 1:
            problems.append("there is not one commit on the job's branch")
    return Outcome(seconds, result, problems=tuple(problems))
