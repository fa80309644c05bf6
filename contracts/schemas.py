"""The JSON Schemas of what is on the wire, written out for readers in other languages.

Owns the table file -> model. The committed files in `contracts/schema/` are golden: a test compares
them with what this module writes, and they are never edited by hand. Rewrite them with

    python -P -m contracts.schemas contracts/schema
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from contracts.ask import AskClaims
from contracts.cancel import CancelClaims
from contracts.delivery import DeliveryClaims
from contracts.dispatch_result import DispatchResult, ResultClaims
from contracts.event_batch import EventBatch
from contracts.events import JobEvent
from contracts.held import HeldClaims
from contracts.job_claims import JobClaims
from contracts.ping import PingAnswer, PingRequest
from contracts.prompt import Harness, PromptRequest
from contracts.receipt import ReceiptClaims
from contracts.run_agent import AgentName, RunAgentRequest, RunAgentResult
from contracts.shell import ShellRequest

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_MODELS: Final[dict[str, type[BaseModel]]] = {
    "run_agent.request": RunAgentRequest,
    "run_agent.result": RunAgentResult,
    "job_event": JobEvent,
    "event_batch": EventBatch,
    "ping.request": PingRequest,
    "ping.answer": PingAnswer,
    "shell.request": ShellRequest,
    "prompt.request": PromptRequest,
    "dispatch_result": DispatchResult,
    "job_claims": JobClaims,
    "result_claims": ResultClaims,
    "receipt_claims": ReceiptClaims,
    "cancel_claims": CancelClaims,
    "ask_claims": AskClaims,
    "delivery_claims": DeliveryClaims,
    "held_claims": HeldClaims,
}

_REQUESTS: Final = frozenset({RunAgentRequest, PingRequest, ShellRequest, PromptRequest})


def schema_texts() -> dict[str, str]:
    """Return the text of each schema file by its file name."""
    return {
        f"{name}.json": json.dumps(_schema(name, model), indent=2, sort_keys=True) + "\n"
        for name, model in _MODELS.items()
    }


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema file into `folder`, which is made if need be; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in schema_texts().items():
        path = folder / name
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return written


def main(arguments: Sequence[str]) -> int:
    """Write the schemas into the one folder named; return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -P -m contracts.schemas FOLDER\n")
        return 2
    for path in write_schemas(Path(arguments[0])):
        sys.stdout.write(f"{path}\n")
    return 0


def _schema(name: str, model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True, mode="validation")
    if model in _REQUESTS:
        _refuse_null(schema)
    if model is RunAgentRequest:
        schema["properties"]["agent"]["enum"] = [agent.value for agent in AgentName]
    if model is PromptRequest:
        schema["properties"]["agent"]["enum"] = [harness.value for harness in Harness]
    return {"$schema": DIALECT, "$id": f"urn:fleet-dispatch:{name}:1", **schema}


def _refuse_null(schema: dict[str, Any]) -> None:
    """An unset field of a request is left out; null is refused, so that one job has one text."""
    for field in schema["properties"].values():
        field.pop("default", None)
        for choice in field.pop("anyOf", []):
            if choice != {"type": "null"}:
                field.update(choice)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
