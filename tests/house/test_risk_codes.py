"""Every code that a risk can carry stands in the list and on the page, and is said by the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contracts.errors import FleetError
from contracts.risk_codes import RiskCode
from tests.support.source_tree import PROJECT, dotted, parse, product_files, relative

_ADVICE = "add it to contracts/risk_codes.py and a line to docs/risks.md"
# What makes a risk, or a refusal whose code becomes the risk of a refused job: the name that is
# called, and the argument that is the code.
_MAKERS = {
    "Risk": None,
    "_risk": 0,
    "lost_run": None,
    "_lost": 1,
    "RepositoryRefused": None,
    "PolicyRefused": None,
    "_refuse": 0,
}
# Codes of refusals that reach no result: other floors', and those of a listener's own start.
_ELSEWHERE = ("dispatch/",)
_LIST = "contracts/risk_codes.py"


def _code_arguments(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func).rpartition(".")[2]
        if name in _MAKERS:
            yield from (word.value for word in node.keywords if word.arg == "code")
            place = _MAKERS[name]
            if place is not None and len(node.args) > place:
                yield node.args[place]


def _texts(node: ast.AST) -> set[str]:
    return {
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }


def _chosen(argument: ast.expr) -> set[str]:
    """Return the codes in the expression `argument`; of a choice both, and not what it asks."""
    if isinstance(argument, ast.IfExp):
        return _chosen(argument.body) | _chosen(argument.orelse)
    return _texts(argument) if isinstance(argument, ast.Constant) else set()


def _kinds() -> set[str]:
    found, pending = set(), [FleetError]
    while pending:
        error = pending.pop()
        found.add(error.kind)
        pending.extend(error.__subclasses__())
    return found


def test_every_code_that_is_said_stands_in_the_list() -> None:
    unknown = {}
    for path in product_files():
        name = relative(path)
        if not name.startswith(_ELSEWHERE):
            said = {code for node in _code_arguments(parse(path)) for code in _chosen(node)}
            if said - set(RiskCode):
                unknown[name] = said - set(RiskCode)
    assert not unknown, _ADVICE
    assert _kinds() <= set(RiskCode), _ADVICE


def test_every_code_of_the_list_is_said_by_some_code() -> None:
    texts: set[str] = set(_kinds())
    for path in product_files():
        if relative(path) != _LIST:
            texts |= _texts(parse(path))
    silent = {code.value for code in RiskCode} - texts
    assert not silent, "nothing says these any more: a code is never given another meaning"


def test_the_page_has_one_line_for_each_code_in_the_order_of_the_list() -> None:
    page = (PROJECT / "docs" / "risks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE)
    assert rows == [code.value for code in RiskCode], _ADVICE


def test_every_line_of_the_page_says_what_it_means_and_what_to_do() -> None:
    page = (PROJECT / "docs" / "risks.md").read_text(encoding="utf-8")
    for row in re.findall(r"^\| `[a-z_]+` \|.*$", page, re.MULTILINE):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == 3 and all(cells), row


def test_a_code_that_no_list_knows_would_be_found() -> None:
    tree = ast.parse("Risk(code='made_up' if x == 'y' else 'other', message='m'); _risk('third')")
    said = {code for node in _code_arguments(tree) for code in _chosen(node)}
    assert said == {"made_up", "other", "third"}
