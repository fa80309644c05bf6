"""`fleet-dispatch policy`: what this host's policy says, and what it would say to one job.

Reads the policy file as a listener does and asks the same rules. Sends nothing, starts nothing and
needs neither keys nor a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from contracts import naming
from contracts.errors import ExitCode, InvalidRequest, Problem
from contracts.ids import checked_name, new_job_id
from contracts.kinds import Kind
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, print_table
from dispatch.commands.payload_file import read_payload
from dispatch.commands.sub_verbs import SubVerbs

if TYPE_CHECKING:
    from contracts.job_claims import JobClaims
    from validation.policy import SenderPolicy
    from validation.policy_rules import RuleAnswer
    from worker.settings import HostSettings

_CHECK_EXAMPLE: Final = """\b
Example:
  fleet-dispatch policy check --payload-file job.json --sender alice --lane MAIN --aud lane
  echo '{}' | fleet-dispatch policy check --payload-file - --sender alice --kind ping --json
"""


@click.group(cls=SubVerbs, epilog="\b\nExample:\n  fleet-dispatch policy show\n")
def command() -> None:
    """Explain what a sender may have run on this host."""


@command.command(epilog="\b\nExample:\n  fleet-dispatch policy show --sender alice --json\n")
@click.option("--sender", metavar="NAME", default=None, help="Only the section that holds for it.")
@json_option
@boundary
def show(*, sender: str | None, as_json: bool) -> None:
    """Show the rights of each sender with a section, roots as their real paths, and validators."""
    from worker.settings import load_host_settings, load_policy

    settings = load_host_settings()
    policy = load_policy(settings)
    names = list(policy.senders) if sender is None else [policy.of(sender)[0]]
    rows = {name: _rights(policy.of(name)[1]) for name in names}
    validators = {name: list(argv) for name, argv in policy.validators.items()}
    if as_json:
        file = str(settings.policy_file)
        print_document({"file": file, "senders": rows, "validators": validators})
        return
    table = [(name, key, _words(value)) for name, row in rows.items() for key, value in row.items()]
    print_table(("SENDER", "RIGHT", "VALUE"), table)
    if validators:
        click.echo()
        print_table(("VALIDATOR", "ARGV"), [(k, " ".join(v)) for k, v in validators.items()])


@command.command(epilog=_CHECK_EXAMPLE)
@click.option("--payload-file", required=True, metavar="FILE", help="Its JSON; - for stdin.")
@click.option("--sender", required=True, metavar="NAME", help="Who would send it.")
@click.option("--lane", metavar="NAME", default=None, help="Default: the first lane of this host.")
@click.option("--kind", default=Kind.RUN_AGENT.value, show_default=True, help="The kind of job.")
@click.option(
    "--aud",
    type=click.Choice(["host", "lane"]),
    default="host",
    show_default=True,
    help="For this host alone, or for whoever of the lane is free.",
)
@json_option
@boundary
def check(
    *, payload_file: str, sender: str, lane: str | None, kind: str, aud: str, as_json: bool
) -> ExitCode:
    """Say of each rule whether it allows the job, and why. Exit code 0: allowed; 2: refused.

    Asked are the very rules that decide when the job comes. Whether this host has a grant of the
    sender, the repository and the agent is not looked at.
    """
    from validation.policy_rules import explain
    from worker.kinds.questions import question_of
    from worker.settings import load_host_settings, load_policy

    settings = load_host_settings()
    policy = load_policy(settings)
    job = {"kind": kind, "iss": checked_name(sender, "--sender"), "lane": _lane(settings, lane)}
    claims = _claims(settings, job, read_payload(payload_file), for_lane=aud == "lane")
    answers = explain(policy, question_of(claims, settings))
    name = policy.of(sender)[0]
    section = name if name in policy.senders else None
    if as_json:
        asked = {"sender": sender, "lane": claims.lane, "aud": claims.aud, "kind": kind}
        rules = [
            {"rule": x.rule, "allows": x.allows, "why": x.why, "remedy": x.remedy} for x in answers
        ]
        print_document({"allowed": _allow(answers), "section": section, **asked, "rules": rules})
    else:
        _tell(answers, section)
    return ExitCode.OK if _allow(answers) else ExitCode.REFUSED


def _lane(settings: HostSettings, named: str | None) -> str:
    lane = named or next(iter(settings.lanes), "")
    if not lane:
        remedy = "this host's configuration names none to take for it"
        raise InvalidRequest([Problem("--lane", "is missing", remedy)])
    return checked_name(lane, "--lane")


def _claims(
    settings: HostSettings, job: dict[str, str], payload: dict[str, Any], *, for_lane: bool
) -> JobClaims:
    """Return the claims that the job would have; its times do not matter to a policy."""
    from contracts.job_claims import JobClaims

    to_lane, to_host = naming.lane_audience(job["lane"]), naming.host_audience(settings.host)
    aud = to_lane if for_lane else to_host
    return JobClaims(**job, aud=aud, jti=new_job_id(), iat=0, exp=1, payload=payload)


def _allow(answers: tuple[RuleAnswer, ...]) -> bool:
    return all(answer.allows for answer in answers)


def _tell(answers: tuple[RuleAnswer, ...], section: str | None) -> None:
    rows = [
        (x.rule, "yes" if x.allows else "NO", f"{x.why} ({x.remedy})" if x.remedy else x.why)
        for x in answers
    ]
    print_table(("RULE", "", "WHY"), rows)
    holds = "the defaults hold: there is no section" if section is None else ""
    holds = holds or f'[senders."{section}"] holds'
    click.echo(f"{'allowed' if _allow(answers) else 'refused'}: {holds}")


def _rights(rights: SenderPolicy) -> dict[str, Any]:
    return rights.model_dump(mode="json", by_alias=True)


def _words(value: object) -> str:
    if value is None:
        return "all"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
