"""The sections of config.toml about HTTP: a host's own door, and where a sender finds others'."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

# Each place costs a few KB while it waits; one is held by each sender that waits for a result.
_CONNECTIONS_DEFAULT: Final = 64
_CONNECTIONS_MAX: Final = 1_024


class HttpSection(BaseModel):
    """`[http]`: the HTTP door of a listener here. Empty `bind`: there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bind: StrictStr = ""
    tls_cert: StrictStr = ""
    tls_key: StrictStr = ""
    allowed_hosts: tuple[StrictStr, ...] = ()
    max_connections: Annotated[StrictInt, Field(ge=4, le=_CONNECTIONS_MAX)] = _CONNECTIONS_DEFAULT
    plain_beyond_loopback: StrictBool = False


NO_HTTP: Final = HttpSection()


class HostSectionOfSender(BaseModel):
    """`[hosts.NAME]`: where the HTTP door of a host is, and which certificates to trust for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: StrictStr
    cacert: StrictStr = ""
