"""What the simulator's push service refuses (RFC 8030, RFC 8292), and what its browser reads."""

import base64
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ops.simulator.exchange import Connection, Request
from ops.simulator.providers.webpush.browser import Browser
from ops.simulator.providers.webpush.reference import reference
from ops.simulator.providers.webpush.rule import PATH_PREFIX, refusal

ORIGIN = "https://127.0.0.1:4433"
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
GOOD = {"ttl": "60", "content-encoding": "aes128gcm", "urgency": "high", "topic": "order-98213"}
DAY_SEC = 24 * 3600


def vapid(key: ec.EllipticCurvePrivateKey = KEY, told: ec.EllipticCurvePrivateKey = KEY, **changes: Any) -> str:
    claims = {"aud": ORIGIN, "exp": int(time.time()) + 3600, "sub": "mailto:ops@shop.example"} | changes
    point = told.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    token = jwt.encode({name: value for name, value in claims.items() if value is not None}, key, algorithm="ES256")
    return f"vapid t={token},k={base64.urlsafe_b64encode(point).rstrip(b'=').decode()}"


def refused(token: str = "browser-1", *, body: bytes = b"x", method: str = "POST", **headers: str) -> int | None:
    """The status, with these headers instead of the good ones; an empty one is left out."""
    given = GOOD | {"authorization": vapid()} | {name.replace("_", "-"): value for name, value in headers.items()}
    kept = tuple((name, value) for name, value in given.items() if value)
    found = refusal(Request(method, PATH_PREFIX + token, "", kept, body, Connection()), ORIGIN, datetime.now(UTC))
    return None if found is None else found.status


def test_a_good_message_is_taken() -> None:
    assert refused() is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"ttl": ""}, 400, id="no-ttl"),
        pytest.param({"ttl": "soon"}, 400, id="ttl-no-number"),
        pytest.param({"urgency": "extreme"}, 400, id="urgency"),
        pytest.param({"topic": "a" * 33}, 400, id="topic-too-long"),
        pytest.param({"topic": "sipariş"}, 400, id="topic-letters"),
        pytest.param({"content_encoding": "aesgcm"}, 400, id="draft-encoding"),
        pytest.param({"authorization": "Bearer x"}, 401, id="no-vapid"),
        pytest.param({"authorization": "vapid t=a.b.c,k=AAAA"}, 401, id="garbage"),
    ],
)
def test_headers(headers: dict[str, Any], status: int) -> None:
    assert refused(**headers) == status


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: vapid(aud="https://elsewhere.example"), id="audience-P10"),
        pytest.param(lambda: vapid(exp=int(time.time()) + DAY_SEC + 600), id="over-a-day-P10"),
        pytest.param(lambda: vapid(exp=int(time.time()) - 1), id="expired"),
        pytest.param(lambda: vapid(sub=None), id="no-subject"),
        pytest.param(lambda: vapid(OTHER), id="another-key-signed"),
    ],
)
def test_signature(make: Callable[[], str]) -> None:
    """Made in the test: what it says of time ages, and tests may be collected long before they run."""
    assert refused(authorization=make()) == 401


def test_size_path_and_method() -> None:
    assert refused(body=b"x" * 4096) is None
    assert refused(body=b"x" * 4097) == 413
    assert refused(method="GET") == 404
    assert refused("") == 404
    assert refused("gone-1") == 410


def test_the_browser_reads_what_was_meant_for_it_alone() -> None:
    browser = Browser(KEY, os.urandom(16))
    assert browser.read(b"") is None
    assert browser.read(os.urandom(200)) is None
    assert reference(None) is None
    assert reference({"reference": 1}) is None
    assert reference({"reference": "ntf_1.PUSH.x"}) == "ntf_1.PUSH.x"
