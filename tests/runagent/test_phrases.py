"""Words of the real CLIs, as their newest tried versions write them, for limits and logins."""

from __future__ import annotations

import pytest

from runagent.agents.phrases import names_a_limit, names_a_missing_login


@pytest.mark.parametrize(
    "message",
    [
        "usage_limit_reached: The usage limit has been reached",
        "The usage limit has been reached",
        "requests: Rate limit reached for requests",
    ],
)
def test_a_used_up_limit_is_recognised(message: str) -> None:
    assert names_a_limit(message)
    assert not names_a_missing_login(message)


@pytest.mark.parametrize(
    "message",
    [
        "Not signed in. To authenticate without a browser, run:\n  grok login --device-code",
        "Missing environment variable: `LOOP_KEY`.",
        "Not logged in · Please run /login",
    ],
)
def test_a_missing_login_is_recognised(message: str) -> None:
    assert names_a_missing_login(message)
    assert not names_a_limit(message)
