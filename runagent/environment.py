"""What a child of ours may inherit.

Owns the allow-list of agents and validators, the list of names that nobody may add to it, the
environment of the host's own git, and the scrub of git's location variables from our process.
An environment is always built up from nothing, never copied and thinned: a variable that nobody
thought of stays out. It must never log or return a value for display.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Who and where one is: POSIX.1 "Environment Variables", and the XDG base directories without
# XDG_RUNTIME_DIR, which leads to the user's bus. SSH_AUTH_SOCK, DOCKER_HOST and the bus address
# stay out: they are doors to more than the agent's own login.
_PLACE: Final = _names(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM COLORTERM NO_COLOR TMPDIR "
    "XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS "
    "__CF_USER_TEXT_ENCODING"
)
# How the network is reached: curl's, OpenSSL's and Node's documented names, both spellings.
_NETWORK: Final = _names(
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS"
)
# Where build tools live, each tool's own documentation; dotnet because validation detects it.
_TOOLS: Final = _names(
    "DOTNET_ROOT DOTNET_CLI_HOME DOTNET_CLI_TELEMETRY_OPTOUT DOTNET_NOLOGO NUGET_PACKAGES "
    "JAVA_HOME GOPATH GOROOT CARGO_HOME RUSTUP_HOME NVM_DIR"
)
# What a Windows program cannot start or find its profile without (CreateProcess documentation;
# npm and dotnet look into APPDATA and the Program Files names).
_WINDOWS: Final = _names(
    "SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT TEMP TMP USERNAME USERDOMAIN USERPROFILE "
    "HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA PROGRAMDATA ALLUSERSPROFILE PUBLIC PROGRAMFILES "
    "PROGRAMFILES(X86) PROGRAMW6432 COMMONPROGRAMFILES COMMONPROGRAMFILES(X86) "
    "COMMONPROGRAMW6432 COMPUTERNAME OS NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE "
    "PSMODULEPATH"
)
# Each agent's login, endpoint and configuration, as its CLI documents them; those for loopback
# endpoints, retry bounds and quiet runs were used in our recordings of the real CLIs.
# IS_SANDBOX: claude as root accepts its bypass mode only with it (recorded).
_CLAUDE: Final = _names(
    "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL ANTHROPIC_MODEL "
    "ANTHROPIC_CUSTOM_HEADERS CLAUDE_CODE_OAUTH_TOKEN CLAUDE_CONFIG_DIR CLAUDE_CODE_MAX_RETRIES "
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC CLAUDE_CODE_PROMPT_CACHE_TTL "
    "CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX API_TIMEOUT_MS DISABLE_AUTOUPDATER "
    "DISABLE_TELEMETRY DISABLE_ERROR_REPORTING IS_SANDBOX"
)
_CODEX: Final = _names(
    "OPENAI_API_KEY OPENAI_BASE_URL OPENAI_ORGANIZATION OPENAI_PROJECT CODEX_API_KEY CODEX_HOME"
)
_GEMINI: Final = _names(
    "GEMINI_API_KEY GEMINI_MODEL GEMINI_CLI_NO_RELAUNCH GOOGLE_API_KEY GOOGLE_GEMINI_BASE_URL "
    "GOOGLE_GENAI_USE_VERTEXAI GOOGLE_CLOUD_PROJECT GOOGLE_CLOUD_LOCATION "
    "GOOGLE_APPLICATION_CREDENTIALS"
)
_GROK: Final = _names("XAI_API_KEY GROK_HOME")

ALLOWED: Final = _PLACE | _NETWORK | _TOOLS | _WINDOWS | _CLAUDE | _CODEX | _GEMINI | _GROK
_ALLOWED_PREFIXES: Final = ("LC_",)

# `git rev-parse --local-env-vars` of git 2.39 (a test compares), the names that older and newer
# releases add, and what makes git look elsewhere without being in that list. Inherited from a
# hook or an alias they would point every git of the run at another repository.
GIT_LOCATIONS: Final = _names(
    "GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT "
    "GIT_OBJECT_DIRECTORY GIT_DIR GIT_WORK_TREE GIT_IMPLICIT_WORK_TREE GIT_GRAFT_FILE "
    "GIT_INDEX_FILE GIT_NO_REPLACE_OBJECTS GIT_REPLACE_REF_BASE GIT_PREFIX GIT_SHALLOW_FILE "
    "GIT_COMMON_DIR GIT_INTERNAL_SUPER_PREFIX GIT_NAMESPACE GIT_QUARANTINE_PATH "
    "GIT_CEILING_DIRECTORIES GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_EXEC_PATH "
    "GIT_TEMPLATE_DIR"
)
_GIT_LOCATION_PREFIXES: Final = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")

# A run that was itself started from inside an agent: its session, its sockets and its marks make
# the inner CLI refuse, attach to the outer session, or report into it (recorded for claude).
_OUTER_AGENT: Final = _names(
    "CLAUDECODE CLAUDE_PID CLAUDE_CODE_SESSION_ID CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SSE_PORT "
    "AI_AGENT CODEX_SANDBOX CODEX_SANDBOX_NETWORK_DISABLED CODEX_THREAD_ID GEMINI_CLI"
)
# How our own interpreter was set up; an agent's or a validator's Python is another one.
_OUR_PYTHON: Final = _names(
    "PYTHONPATH PYTHONHOME PYTHONSAFEPATH PYTHONSTARTUP PYTHONEXECUTABLE PYTHONINSPECT "
    "PYTHONBREAKPOINT"
)
NEVER: Final = GIT_LOCATIONS | _OUTER_AGENT | _OUR_PYTHON
_NEVER_PREFIXES: Final = (*_GIT_LOCATION_PREFIXES, "FLEET_DISPATCH_", "CLAUDE_CODE_MESSAGING_")

CONTEXT_NAME: Final = "TOKENROI_CONTEXT"  # the contract: agents' use is attributed to us
CONTEXT_VALUE: Final = "fleet-dispatch"


def is_never(name: str) -> bool:
    """Say whether no child may have `name`, whatever a host's configuration adds.

    Compared in upper case, as Windows does.
    """
    upper = name.upper()
    return upper in NEVER or upper.startswith(_NEVER_PREFIXES)


def agent_environment(
    source: Mapping[str, str],
    *,
    extra_names: Sequence[str] = (),
    overrides: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment of an agent or a validator.

    `source` is what the host has, `extra_names` what its configuration allows besides, `overrides`
    what the run sets. TOKENROI_CONTEXT is always ours. A name of `is_never` is left out wherever
    it comes from.
    """
    extra = frozenset(extra_names)
    built = {name: value for name, value in source.items() if _is_allowed(name, extra)}
    built.update(overrides or {})
    built[CONTEXT_NAME] = CONTEXT_VALUE
    return {name: value for name, value in built.items() if not is_never(name)}


def shell_environment(source: Mapping[str, str], extra_names: Sequence[str]) -> dict[str, str]:
    """Return the environment of a sender's own command: an agent's, without any agent's login."""
    named = _PLACE | _NETWORK | _TOOLS | _WINDOWS | frozenset(extra_names)
    built = agent_environment(source, extra_names=extra_names)
    return {
        name: value
        for name, value in built.items()
        if name in (*named, CONTEXT_NAME) or name.startswith(_ALLOWED_PREFIXES)
    }


def _is_allowed(name: str, extra: frozenset[str]) -> bool:
    spelled = {name, name.upper()} if os.name == "nt" else {name}
    if any(spelling.startswith(_ALLOWED_PREFIXES) for spelling in spelled):
        return True
    return not spelled.isdisjoint(ALLOWED | extra)


def network_variables(source: Mapping[str, str]) -> dict[str, str]:
    """Return what of `source` says how the network is reached: proxies and certificates."""
    return {name: value for name, value in source.items() if name in _NETWORK}


def git_environment() -> dict[str, str]:
    """Return the environment of the host's own git: built from nothing but our PATH.

    No configuration but the repository's, no replace refs, no system attributes, no prompt, no
    network (only the `file` transport, no ssh), no lock taken for looking.
    """
    own = os.environ
    entries = own.get("PATH", os.defpath).split(os.pathsep)
    built = {
        "PATH": os.pathsep.join(entry for entry in entries if os.path.isabs(entry)),
        "HOME": "/dev/null",
        "XDG_CONFIG_HOME": "/dev/null",
        "LC_ALL": "C",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_SSH_COMMAND": "false",
        "GIT_ALLOW_PROTOCOL": "file",
        "GIT_EDITOR": "false",
        "GIT_PAGER": "cat",
    }
    built.update({name: own[name] for name in ("SYSTEMROOT", "TEMP", "TMP") if name in own})
    return built


def owners_git_environment() -> dict[str, str]:
    """Return the environment of git as the owner would run it: ours, in English, without a prompt,
    a lock taken for looking, or a promisor asked for objects (that would talk to the network under
    a lock; git 2.44 and later listen)."""
    return {
        **os.environ,
        "LANGUAGE": "C",
        "LC_ALL": "C",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
    }


def interpreter_environment() -> dict[str, str]:
    """Return what a bare interpreter of ours needs to start: where its libraries are, no more."""
    names = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
    return {name: os.environ[name] for name in names if name in os.environ}


def scrub_own_git_variables(environment: MutableMapping[str, str] | None = None) -> tuple[str, ...]:
    """Remove git's location variables from our own process; return the names removed.

    Called once by commands, before any git runs: a listener started from a git hook inherits
    GIT_DIR and GIT_INDEX_FILE, and would write into that repository.
    """
    own = os.environ if environment is None else environment
    named = [
        name
        for name in own
        if name.upper() in GIT_LOCATIONS or name.upper().startswith(_GIT_LOCATION_PREFIXES)
    ]
    for name in named:
        del own[name]
    return tuple(sorted(named))
