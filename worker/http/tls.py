"""The certificate of the door: its files, read at the start and refused with words there."""

from __future__ import annotations

import ssl
from pathlib import Path

from contracts.errors import InvalidRequest, Problem


def load_tls(cert: str, key: str) -> ssl.SSLContext | None:
    """Return the context of a door with the certificate chain in the PEM file `cert` and its key in
    `key`; None for a door without TLS.

    Raises InvalidRequest when one of the two is missing or cannot be used.
    """
    if not cert and not key:
        return None
    if not cert or not key:
        field = "http.tls_cert" if not cert else "http.tls_key"
        raise InvalidRequest([Problem(field, "is missing", "TLS needs a certificate and its key")])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(Path(cert).expanduser(), Path(key).expanduser())
    except (OSError, ssl.SSLError) as error:
        why = error.strerror if type(error) is not ssl.SSLError and error.strerror else "no pair"
        problem = Problem(
            "http.tls_cert, http.tls_key", f"cannot be used: {why}", "name a PEM chain and its key"
        )
        raise InvalidRequest([problem]) from error
    return context
