"""The real CLIs through the whole product, on loopback: what `make e2e` runs.

Installs the pinned CLIs (needs the registry), then closes the network for itself and all below it,
and plays every scenario of `expected.toml`: a host with a listener, one signed job per CLI, the
result held against the table. Prints the table, the versions, and `e2e: n/4 CLIs`. Ends with 0 when
all four came to what they were to come to, 1 when not, 77 when this machine lacks node, disk or a
way to the registry.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.real import installation, loopback, report
from tests.real.cases import Scenario, read_scenarios
from tests.real.play import play
from tests.real.report import Row
from tests.real.settings import AGENTS
from tests.real.stage import STOPPED
from tests.support.model.server import ModelServer, running_model

_AT_ONCE = 3  # scenarios of short jobs, on two cores
_CANNOT = 77  # what test harnesses take for "skipped"


def main() -> int:
    """Run; return the exit code."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    cache = installation.cache_folder()
    obstacle = installation.find_obstacle(cache)
    if obstacle:
        _say(f"not run: {obstacle}")
        _say(f"0/{len(AGENTS)} CLIs")
        return _CANNOT
    began = time.monotonic()
    try:
        installed = installation.install(cache)
    except installation.CannotInstall as error:
        _say(f"not installed: {error}")
        _say(f"0/{len(AGENTS)} CLIs")
        return _CANNOT if isinstance(error, installation.OutOfReach) else 1
    _say(f"installed after {time.monotonic() - began:.0f} s, in {installed.programs.parent.parent}")
    chosen = [row for row in read_scenarios() if re.search(options.only, row.name)]
    closed = _leave_everything_behind(installed.programs)
    where = cache / "runs"
    where.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=where)).resolve()
    with running_model(folder, folder / "outside") as model:
        agents = set(options.agent or AGENTS)
        rows = _play_all(folder, chosen, installed.programs, model, agents)
        if options.second_look:
            rows = _look_again(rows, folder / "again", installed.programs, model, agents)
        asked_for = sorted(model.asked_for)
    facts = {"closedNetwork": closed, "askedFor": asked_for, "seconds": time.monotonic() - began}
    wrong = _show(rows, installed.versions, facts, as_json=options.json)
    if wrong or options.keep:
        _say(f"everything of this run stays in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    _say(f"{report.count(rows)}/{len(AGENTS)} CLIs, {time.monotonic() - began:.0f} s")
    return 1 if wrong or report.count(rows) < len(options.agent or AGENTS) else 0


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    """Leave through every `finally`: listeners and broker are ended in order."""
    STOPPED.set()
    raise SystemExit(128 + number)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make e2e", description="The real CLIs on loopback.")
    parser.add_argument("--json", action="store_true", help="one document on stdout")
    parser.add_argument("--only", default="", help="scenarios whose name has this pattern")
    parser.add_argument("--agent", action="append", choices=AGENTS, help="this CLI; repeatable")
    parser.add_argument(
        "--second-look", action="store_true", help="play a scenario that came out wrong once more"
    )
    parser.add_argument("--keep", action="store_true", help="keep homes, trees and logs")
    return parser.parse_args()


def _leave_everything_behind(programs: Path) -> bool:
    """Close the network, and forget the environment of whoever runs this. Before any thread."""
    closed = loopback.close_network()
    kept = loopback.own_environment()
    os.environ.clear()
    os.environ.update(kept)
    return closed


def _play_all(
    folder: Path, chosen: list[Scenario], programs: Path, model: ModelServer, agents: set[str]
) -> list[Row]:
    """Play the scenarios: those that wait for time limits all at once, from the start."""
    patient = [one for one in chosen if one.first]
    order = {one.name: number for number, one in enumerate(chosen)}

    def run(scenario: Scenario) -> list[Row]:
        place = folder / f"s{order[scenario.name]:02d}-{scenario.model}-{scenario.sandbox}"
        rows = play(place, scenario, programs, model, agents)
        for row in rows:
            _say(" | ".join((*row.cells, *row.differences)))
        return rows

    with (
        ThreadPoolExecutor(max(1, len(patient))) as waiting,
        ThreadPoolExecutor(_AT_ONCE) as working,
    ):
        jobs = {one.name: (waiting if one.first else working).submit(run, one) for one in chosen}
        return [row for one in chosen for row in jobs[one.name].result()]


def _look_again(
    rows: list[Row], folder: Path, programs: Path, model: ModelServer, agents: set[str]
) -> list[Row]:
    """Play what came out wrong once more: a machine that stood still is no verdict on a CLI."""
    wrong = list({row.scenario.name: row.scenario for row in rows if row.differences}.values())
    if not wrong:
        return rows
    _say(f"once more: {', '.join(scenario.name for scenario in wrong)}")
    folder.mkdir()
    second = _play_all(folder, wrong, programs, model, agents)
    again = {scenario.name for scenario in wrong}
    return [row for row in rows if row.scenario.name not in again] + second


def _show(
    rows: list[Row], versions: dict[str, str], facts: dict[str, object], *, as_json: bool
) -> bool:
    """Show everything; say whether something is wrong."""
    if as_json:
        print(report.document(rows, versions, facts))
    else:
        print(report.table(rows))
    for agent, version in versions.items():
        _say(f"{agent} {version}")
    if facts["closedNetwork"]:
        _say("network: loopback alone, closed by the kernel")
    else:
        _say("network: proxies that lead nowhere; only root on Linux can close it")
    _say(f"asked for, and refused: {', '.join(facts['askedFor']) or 'no other machine'}")
    wrong = [row for row in rows if row.differences]
    for row in wrong:
        _say(f"WRONG: {row.scenario.name}, {row.case.agent}: {'; '.join(row.differences)}")
        _say(f"       {row.told}")
    return bool(wrong)


def _say(text: str) -> None:
    print(f"e2e: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
