"""`fleet-dispatch config show`: each setting with where it came from; passwords masked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dispatch.commands.agents import agent_presets
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, print_table, redis_option
from dispatch.commands.sub_verbs import SubVerbs

if TYPE_CHECKING:
    from dispatch.settings import Settings


@click.group(cls=SubVerbs, epilog="\b\nExample:\n  fleet-dispatch config show\n")
def command() -> None:
    """Show settings and where they came from."""


@command.command(epilog="\b\nExample:\n  fleet-dispatch config show --json\n")
@redis_option
@json_option
@boundary
def show(*, redis_url: str | None, as_json: bool) -> None:
    """Print each setting with its source: flag, environment, file or default."""
    from dispatch.settings import load_settings

    rows = shown_settings(load_settings(flags={"fleet.redis_url": redis_url}))
    if as_json:
        print_document({"settings": rows})
        return
    print_table(
        ("KEY", "VALUE", "SOURCE"),
        [(row["key"], json.dumps(row["value"], ensure_ascii=False), row["source"]) for row in rows],
    )


def shown_settings(settings: Settings) -> list[dict[str, Any]]:
    """Return `{"key", "value", "source"}` for each value, passwords masked."""
    from dispatch.broker_url import masked_url

    places = settings.places
    rows: list[dict[str, Any]] = [
        {"key": "places.config_dir", "value": str(places.config_dir), "source": places.source},
        {"key": "places.state_dir", "value": str(places.state_dir), "source": places.source},
    ]
    values = settings.model_dump(mode="json", exclude={"places", "sources"})
    values["fleet"]["redis_url"] = masked_url(settings.redis_url)
    values.pop("agents")  # what is written there, over what each agent has by itself
    rows.append(_row(settings, "repo_paths", values.pop("repo_paths")))
    for name, agent in agent_presets().items():
        rows += [_row(settings, f"agents.{name}.{key}", value) for key, value in agent.items()]
    for section, content in values.items():
        rows += [_row(settings, f"{section}.{key}", value) for key, value in content.items()]
    return rows


def _row(settings: Settings, key: str, value: object) -> dict[str, Any]:
    return {"key": key, "value": value, "source": settings.source_of(key)}
