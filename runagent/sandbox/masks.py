"""What of this host no agent may see: our keys, settings and state, and the doors to more rights.

Owns the list. A door is a socket whose other end acts with more than the agent's rights: an agent
of keys, an engine of containers, the user's bus. It must never hide what the run itself needs
without saying so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contracts.errors import RepositoryRefused
from runagent.sandbox.home_layer import doors_below
from runagent.sandbox.mounts import is_inside

# Where engines and buses listen outside of /run, which is covered whole.
_SOCKETS: Final = ("/var/lib/docker", "/var/lib/containerd", "/var/snap/docker/common")
# Our folders when they stand in a folder that holds more than our things.
_OURS: Final = ("config.toml", "policy.toml", "keys", "state", "journal.witness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """Our own places on this host, absolute: settings, keys, state."""

    config_dir: str
    keys_dir: str
    state_dir: str

    def hidden(self, home: str) -> list[str]:
        """Return what is hidden of them. A settings folder that is the home itself, or above it,
        is not hidden whole."""
        settings = os.path.realpath(self.config_dir)
        if home and is_inside(home, (settings,)):
            own = [os.path.join(settings, name) for name in _OURS]
        else:
            own = [settings]
        real = [os.path.realpath(path) for path in (*own, self.keys_dir, self.state_dir)]
        # A folder that lies in another one of the list is hidden with it.
        return [path for path in dict.fromkeys(real) if not _has_parent(path, real)]


def doors(environment: Mapping[str, str], home: str) -> list[str]:
    """Return the sockets that the host's `environment` names, and the known ones."""
    named = [
        environment.get("SSH_AUTH_SOCK", ""),
        environment.get("XDG_RUNTIME_DIR", ""),
        environment.get("GPG_AGENT_INFO", "").partition(":")[0],
        _socket_of(environment.get("DOCKER_HOST", "")),
        _socket_of(environment.get("CONTAINER_HOST", "")),
        *(_bus_path(part) for part in environment.get("DBUS_SESSION_BUS_ADDRESS", "").split(";")),
    ]
    known = doors_below(home) if home else []
    return [path for path in (*named, *_SOCKETS, *known) if os.path.isabs(path)]


def refuse_hidden(path: str, hidden: list[str], what: str) -> None:
    """Return if `path` can be shown.

    Raises RepositoryRefused (code `repo_masked`) naming the hidden folder that it lies in.
    """
    roots = [root for root in hidden if is_inside(path, (root,))]
    if roots:
        raise RepositoryRefused(
            f"{what} {path} lies in {roots[0]}, which the sandbox hides from agents",
            code="repo_masked",
            remedy='move it elsewhere, or set mode = "none" under [sandbox]',
        )


def _has_parent(path: str, paths: list[str]) -> bool:
    return any(path != other and is_inside(path, (other,)) for other in paths)


def _socket_of(url: str) -> str:
    return url.removeprefix("unix://") if url.startswith("unix://") else ""


def _bus_path(address: str) -> str:
    kind, _, rest = address.partition(":")
    paths = [part[5:] for part in rest.split(",") if part.startswith("path=")]
    return paths[0] if kind == "unix" and paths else ""
