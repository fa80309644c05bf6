"""What of one outcome is not as the table says. Pure: everything was looked at before."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.real.cases import Case, Scenario, prompt_text
from tests.real.stage import Outcome


def differences(scenario: Scenario, case: Case, outcome: Outcome) -> list[str]:
    """Return every difference between `outcome` and the table, in words."""
    found = list(outcome.problems)
    if case.status == "refused":
        if not outcome.refusal:
            found.append("the sender did not refuse it")
        return found
    result = outcome.result
    if result is None:
        return [*found, outcome.refusal or "no result came in time"]
    found += _result_differs(case, result)
    if scenario.model == "echo" and case.status == "completed":
        found += _echo_differs(scenario, result)
    if scenario.validate:
        attempted = result["tests_attempted"]
        if len(attempted) != 1 or not attempted[0].endswith("=> exit 0"):
            found.append(f"the validation did not pass: {attempted}")
    if outcome.seconds > case.at_most:
        found.append(f"took {outcome.seconds:.0f} s, {case.at_most:.0f} s at most")
    return found


def _result_differs(case: Case, result: dict[str, Any]) -> list[str]:
    found = _compare("status", case.status, result["status"])
    found += _compare("needs_human_review", case.review, result["needs_human_review"])
    if case.reason is not None:
        found += _compare("reason", case.reason, reason_of(result))
    if case.resets and not (result.get("reason") or {}).get("resetsAt"):
        found.append("the reason does not say when the limit resets")
    codes = {risk["code"] for risk in result["risks"]}
    found += [f"no risk {code} among {sorted(codes)}" for code in case.risks if code not in codes]
    if case.files is not None:
        found += _compare("changed_files", sorted(case.files), sorted(result["changed_files"]))
    if case.said and case.said not in result["summary"]:
        found.append(f"the summary does not say {case.said!r}")
    return found


def reason_of(result: dict[str, Any]) -> str:
    """Return the code of a result's reason, "" when it has none."""
    reason = result.get("reason")
    return str(reason["code"]) if isinstance(reason, dict) else ""


def _echo_differs(scenario: Scenario, result: dict[str, Any]) -> list[str]:
    data = prompt_text(scenario.prompt).encode()
    wanted = f"received {len(data)} bytes sha256 {hashlib.sha256(data).hexdigest()}"
    if wanted in result["summary"]:
        return []
    return [f"the model was to receive {len(data)} bytes, and: {result['summary'][:200]}"]


def _compare(what: str, wanted: object, seen: object) -> list[str]:
    return [] if wanted == seen else [f"{what} is {seen!r}, {wanted!r} was to be"]
