"""The certificate of the door: its files, read at the start and refused with words there."""

from __future__ import annotations

import os.path
import ssl

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
        # A key behind a passphrase is refused: without a word for it OpenSSL would ask a terminal.
        files = os.path.expanduser(cert), os.path.expanduser(key)
        context.load_cert_chain(*files, password=lambda: b"")
    except (OSError, ValueError) as error:
        why = "no pair, or the key has a passphrase"
        if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
            why = str(error.strerror)
        problem = Problem(
            "http.tls_cert, http.tls_key", f"cannot be used: {why}", "name a PEM chain and its key"
        )
        raise InvalidRequest([problem]) from error
    return context
