"""AWS's Signature Version 4, checked. Pure. Written from AWS's page and not by botocore, which signs on the other side.

Source: AWS IAM User Guide, "Create a signed AWS API request" (canonical request, string to sign, signing key).
"""

import hashlib
import hmac
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from ops.simulator.exchange import Request

SERVICE: Final = "ses"
MAX_AGE: Final = timedelta(minutes=5)
"""How far a signature's time may be from the server's."""

_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/, ]+)/(\d{8})/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request,"
    r" ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})"
)
_REQUIRED: Final = frozenset({"host", "x-amz-date"})


def fault(request: Request, access_key_id: str, secret: str, region: str, now: datetime) -> str | None:
    """The name of AWS's error for a request that is not signed by this key for this region; None for one that is."""
    authorization = request.header("authorization")
    if authorization is None:
        return "MissingAuthenticationToken"
    match = _AUTHORIZATION.fullmatch(authorization)
    signed_at = _time(request.header("x-amz-date"))
    if match is None or signed_at is None:
        return "IncompleteSignature"
    key_id, day, scope_region, service, names, signature = match.groups()
    signed = names.split(";")
    if key_id != access_key_id:
        return "UnrecognizedClientException"
    if abs(now - signed_at) > MAX_AGE:
        return "RequestExpired"
    if day != f"{signed_at:%Y%m%d}" or scope_region != region or service != SERVICE or not set(signed) >= _REQUIRED:
        return "SignatureDoesNotMatch"
    expected = _signature(request, signed, secret, f"{day}/{region}/{SERVICE}/aws4_request")
    return None if hmac.compare_digest(expected, signature) else "SignatureDoesNotMatch"


def _signature(request: Request, signed: list[str], secret: str, scope: str) -> str:
    headers = "".join(f"{name}:{' '.join((request.header(name) or '').split())}\n" for name in signed)
    payload = hashlib.sha256(request.body).hexdigest()
    canonical = "\n".join((request.method, request.path, request.query, headers, ";".join(signed), payload))
    to_sign = "\n".join(
        (
            "AWS4-HMAC-SHA256",
            request.header("x-amz-date") or "",
            scope,
            hashlib.sha256(canonical.encode()).hexdigest(),
        )
    )
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, to_sign.encode(), "sha256").hex()


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.strptime(text or "", "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
