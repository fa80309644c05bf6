"""The tokens of one attempt, counted from what its CLI reports: pure.

Owns the four CLIs' names for the same numbers. Each report that is cumulative replaces the one
before it, each that is not is added. Subagents are counted once: where a CLI tells its tokens by
model, subagents included, that table is what counts, and never the sum of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from contracts.strict_json import JsonValue
from contracts.usage import Usage
from runagent.agents import fields

# One number of a report: its names in the CLIs' spellings; the first that is there counts.
_INPUT: Final = ("input_tokens", "inputTokens")
_OUTPUT: Final = ("output_tokens", "outputTokens")
_READ: Final = (
    *("cache_read_input_tokens", "cacheReadInputTokens", "cached_input_tokens", "cached"),
)
_WRITTEN: Final = (
    *("cache_creation_input_tokens", "cacheCreationInputTokens", "cache_write_input_tokens"),
)
_REASONING: Final = ("reasoning_output_tokens", "reasoning_tokens", "thoughts_tokens")
_MODELS_MAX: Final = 20
_NAME_MAX_CHARS: Final = 100
_TOKENS_MAX: Final = 2**53 - 1


def usage_of(report: dict[str, Any], *, input_holds_cached: bool = False) -> Usage:
    """Return one report of tokens. `input_holds_cached` says that the CLI counts what it read from
    a cache as input, too."""
    read = _number(report, _READ)
    given = _number(report, _INPUT)
    hour = _number(fields.object_at(report, "cache_creation"), ("ephemeral_1h_input_tokens",))
    written = _number(report, _WRITTEN)
    return Usage(
        input=max(0, given - read) if input_holds_cached else given,
        output=_number(report, _OUTPUT),
        cacheRead=read,
        cacheWrite5m=max(0, written - hour),
        cacheWrite1h=hour,
        reasoning=_number(report, _REASONING),
    )


def usage_by_model(table: dict[str, Any], *, input_holds_cached: bool = False) -> Usage:
    """Return the sum of a table model -> report, with the names of the models that were used."""
    rows = {
        name: usage_of(fields.object_at(table, name), input_holds_cached=input_holds_cached)
        for name in table
    }
    names = [name[:_NAME_MAX_CHARS] for name, row in rows.items() if row.input or row.output]
    return total(rows.values()).model_copy(update={"models": tuple(names[:_MODELS_MAX])})


def total(parts: Iterable[Usage]) -> Usage:
    """Return the sum of `parts`; costs are added where any is told."""
    summed = Usage()
    for part in parts:
        costs = [cost for cost in (summed.costUsd, part.costUsd) if cost is not None]
        summed = Usage(
            input=_bounded(summed.input + part.input),
            output=_bounded(summed.output + part.output),
            cacheRead=_bounded(summed.cacheRead + part.cacheRead),
            cacheWrite5m=_bounded(summed.cacheWrite5m + part.cacheWrite5m),
            cacheWrite1h=_bounded(summed.cacheWrite1h + part.cacheWrite1h),
            reasoning=_bounded(summed.reasoning + part.reasoning),
            models=tuple(dict.fromkeys((*summed.models, *part.models)))[:_MODELS_MAX],
            costUsd=sum(costs) if costs else None,
        )
    return summed


def cost_of(value: object) -> float | None:
    """Return a cost in dollars as a CLI told it, None for anything that is none."""
    cost = fields.plain_number(value)
    return round(cost, 9) if cost is not None and 0 <= cost < 1e9 else None


def as_data(usage: Usage, *, cumulative: bool) -> dict[str, JsonValue]:
    """Return the data of a usage event: the numbers, and whether they replace those before."""
    numbers: dict[str, JsonValue] = usage.model_dump(mode="json", exclude_none=True)
    return {**numbers, "cumulative": cumulative}


def from_data(data: dict[str, Any]) -> Usage:
    """Return the usage in the data of a usage event."""
    models = [name for name in fields.list_at(data, "models") if isinstance(name, str)]
    numbers = {
        name: _number(data, (name,))
        for name in ("input", "output", "cacheRead", "cacheWrite5m", "cacheWrite1h", "reasoning")
    }
    cost = cost_of(data.get("costUsd"))
    return Usage(**numbers, models=tuple(models[:_MODELS_MAX]), costUsd=cost)


def _number(report: dict[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        value = report.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return _bounded(value)
    return 0


def _bounded(tokens: int) -> int:
    return min(max(0, tokens), _TOKENS_MAX)
