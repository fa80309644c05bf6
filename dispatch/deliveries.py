"""A host's receipts as its job's sender reads them: checked against who signed and what was sent.

Pure, over the keyring and the sender's record. Nothing of a receipt counts before its signature
holds, whichever way it came.
"""

from __future__ import annotations

from contracts.delivery import DeliveryClaims, DeliveryCode, read_delivery_claims
from contracts.envelope import DELIVERY_TYPE, open_envelope
from contracts.errors import EnvelopeRefused, InvalidRequest
from dispatch.keyring import SenderKeyring
from dispatch.keys import DELIVERY, parse_key_id
from dispatch.sent import SentJob


def open_delivery(
    text: str, keyring: SenderKeyring, sent: SentJob, *, nonce: str = ""
) -> DeliveryClaims:
    """Return the receipt in the envelope `text` if a granted host signed it about `sent`.

    `nonce` is that of the question it answers. Raises EnvelopeRefused; its code is for this side.
    """
    try:
        opened = open_envelope(text, keyring.host_keys(DELIVERY), DELIVERY_TYPE)
    except InvalidRequest as error:
        raise EnvelopeRefused("not strict JSON", code="malformed") from error
    claims = read_delivery_claims(opened.payload)
    key_id = parse_key_id(opened.kid)
    signing_host = "" if key_id is None else key_id.aud_name
    lanes = keyring.lanes_ever_of(signing_host)
    is_unknown = claims.code is DeliveryCode.UNKNOWN and not claims.jobSha256
    checks = (
        (claims.iss == signing_host, "host", "signed by another host than it says"),
        (not sent.target or sent.target == signing_host, "host", "not the host of the job"),
        (bool(sent.target) or sent.lane in lanes, "lane", "a host without this lane"),
        (claims.aud == keyring.name, "audience", "for another sender"),
        (claims.jti == sent.job_id, "job", "about another job"),
        (is_unknown or claims.jobSha256 == sent.sha256, "job_bytes", "about other job bytes"),
        (claims.nonce == nonce, "nonce", "not the answer to this question"),
    )
    for holds, code, message in checks:
        if not holds:
            raise EnvelopeRefused(message, code=code)
    return claims
