"""The errors of the four APIs, as their makers document them: status, body, headers. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

LIMIT_S = 10_800  # a used-up window opens again in three hours


class Fault(NamedTuple):
    """One error answer."""

    status: int
    body: dict[str, Any]
    headers: tuple[tuple[str, str], ...] = ()


def anthropic_fault(name: str, now: int) -> Fault:
    """Return the Messages API's form of the fault `name`."""
    if name == "usage-limit":
        return Fault(429, _anthropic("rate_limit_error", _EXCEEDED), _window(now))
    return {
        "rate-limit": Fault(
            429, _anthropic("rate_limit_error", _EXCEEDED), (("retry-after", "1"),)
        ),
        "unauthorized": Fault(401, _anthropic("authentication_error", "invalid x-api-key")),
        "server-error": Fault(500, _anthropic("api_error", "Internal server error")),
        "overloaded": Fault(529, _anthropic("overloaded_error", "Overloaded")),
        "context-full": Fault(
            400,
            _anthropic(
                "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"
            ),
        ),
    }[name]


def openai_fault(name: str, now: int) -> Fault:
    """Return the form of the fault `name` that Responses and chat completions share."""
    if name == "usage-limit":
        body = {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "plan_type": "plus",
            "resets_at": now + LIMIT_S,
            "resets_in_seconds": LIMIT_S,
        }
        return Fault(429, {"error": body})
    status, kind, code, message = {
        "rate-limit": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests"),
        "unauthorized": (
            401,
            "invalid_request_error",
            "invalid_api_key",
            "Incorrect API key provided: fake.",
        ),
        "server-error": (500, "server_error", None, "The server had an error"),
        "overloaded": (503, "server_error", "server_is_overloaded", "The server is overloaded"),
        "context-full": (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "Your input exceeds the context window of this model.",
        ),
    }[name]
    error = {"message": message, "type": kind, "param": None, "code": code}
    headers = (("retry-after", "1"),) if name == "rate-limit" else ()
    return Fault(status, {"error": error}, headers)


def gemini_fault(name: str, _now: int) -> Fault:
    """Return Gemini's form of the fault `name`: google.rpc.Status."""
    if name == "usage-limit":
        quota = {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [
                {
                    "quotaMetric": "generativelanguage.googleapis.com/generate_requests",
                    "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
                    "quotaValue": "50",
                }
            ],
        }
        message = "You exceeded your current quota, please check your plan and billing details."
        return Fault(429, _google(429, "RESOURCE_EXHAUSTED", message, quota))
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}
    return {
        "rate-limit": Fault(
            429, _google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.", retry)
        ),
        "unauthorized": Fault(401, _google(401, "UNAUTHENTICATED", "API key not valid.")),
        "server-error": Fault(500, _google(500, "INTERNAL", "Internal error encountered.")),
        "overloaded": Fault(503, _google(503, "UNAVAILABLE", "The model is overloaded.")),
        "context-full": Fault(
            400, _google(400, "INVALID_ARGUMENT", "The input token count exceeds the maximum.")
        ),
    }[name]


_EXCEEDED = "This request would exceed your account's rate limit. Please try again later."


def _anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _window(now: int) -> tuple[tuple[str, str], ...]:
    """The headers of a subscription whose five hours are used up."""
    resets = str(now + LIMIT_S)
    prefix = "anthropic-ratelimit-unified"
    return (
        (f"{prefix}-status", "rejected"),
        (f"{prefix}-reset", resets),
        (f"{prefix}-representative-claim", "five_hour"),
        (f"{prefix}-5h-status", "rejected"),
        (f"{prefix}-5h-reset", resets),
        (f"{prefix}-5h-utilization", "1.0"),
        (f"{prefix}-overage-status", "rejected"),
        ("retry-after", str(LIMIT_S)),
        ("x-should-retry", "false"),
    )


def _google(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    error = {"code": code, "message": message, "status": status, "details": list(details)}
    return {"error": error}
