"""Whom Web Push calls, and as whom (P10, P12). No socket: what a transport does is tested where it is real."""

import base64
import ipaddress
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from shared.core.outcome import (
    Accepted,
    Ambiguous,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    TargetGone,
    Throttled,
    Transient,
)
from shared.core.ports import Reply
from shared.core.web_push import Address, InvalidSubscriptionError, WebPushSubscription
from shared.providers.push.webpush.classify import contained
from shared.providers.push.webpush.host import STRANGER_SEC, PushHosts
from shared.providers.push.webpush.vapid import LIFE_SEC, VapidTokens

KEY = ec.generate_private_key(ec.SECP256R1())


class Kept:
    """A transport that remembers how it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []

    async def post(self, url: str, _headers: Mapping[str, str], _body: bytes, *, timeout_sec: float) -> Reply:
        self.asked.append((url, timeout_sec))
        return Reply(201, {}, b"")


def subscription(host: str) -> WebPushSubscription:
    return WebPushSubscription(f"https://{host}/x", "", "", host)


class World:
    """Push hosts over transports that send nothing, and what was looked up and pinned."""

    def __init__(self, *addresses: str) -> None:
        self.kept, self.own = Kept(), Kept()
        self.looked_up: list[str] = []
        self.pinned: list[tuple[str, str]] = []
        self._addresses = addresses
        self.hosts = PushHosts(self.kept, self._open, frozenset({"127.0.0.1:8443"}), self._resolve)

    async def _resolve(self, host: str) -> Sequence[Address]:
        self.looked_up.append(host)
        return [ipaddress.ip_address(text) for text in self._addresses]

    @asynccontextmanager
    async def _open(self, *, pinned: tuple[str, str]) -> AsyncIterator[Kept]:
        self.pinned.append(pinned)
        yield self.own

    async def post(self, host: str) -> Reply:
        return await self.hosts.post(subscription(host), {}, b"x", timeout_sec=30.0)


@pytest.mark.parametrize(
    "host",
    ["fcm.googleapis.com", "updates.push.services.mozilla.com", "web.push.apple.com", "wns2-par02p.notify.windows.com"],
)
async def test_browsers_own_push_services_share_kept_connections(host: str) -> None:
    world = World()
    await world.post(host)
    assert world.kept.asked == [(f"https://{host}/x", 30.0)]
    assert world.looked_up == []


async def test_a_trusted_host_needs_no_look_up() -> None:
    world = World()
    await world.post("127.0.0.1:8443")
    assert len(world.kept.asked) == 1


async def test_a_stranger_is_looked_up_once_and_called_at_that_address_P12() -> None:
    world = World("2001:4860:4860::8888", "8.8.8.8")
    await world.post("push.example")
    assert world.looked_up == ["push.example"]
    assert world.pinned == [("push.example", "8.8.8.8")]
    assert world.own.asked == [("https://push.example/x", STRANGER_SEC)]
    assert world.kept.asked == []


@pytest.mark.parametrize("addresses", [(), ("10.0.0.8",), ("8.8.8.8", "127.0.0.1")])
async def test_a_stranger_within_our_network_is_never_called_P12(addresses: tuple[str, ...]) -> None:
    world = World(*addresses)
    with pytest.raises(InvalidSubscriptionError):
        await world.post("evilfcm.googleapis.com.push.example")
    assert world.pinned == []
    assert world.kept.asked == []


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (ProviderDown("401"), Permanent("401", dead_letter=False)),
        (Transient("503"), Throttled(Scope.TARGET, "503")),
        (Ambiguous("lost"), Throttled(Scope.TARGET, "lost")),
        (Accepted(), Accepted()),
        (TargetGone("410"), TargetGone("410")),
        (Throttled(Scope.DOMAIN, "429", 7.0), Throttled(Scope.DOMAIN, "429", 7.0)),
        (Permanent("413"), Permanent("413")),
    ],
)
def test_what_a_stranger_answers_says_nothing_of_the_account(outcome: Outcome, expected: Outcome) -> None:
    assert contained(outcome) == expected


# ---------------------------------------------------------------- VAPID


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "vapid.pem"
    path.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


def claims(authorization: str) -> dict[str, object]:
    """As a push service checks it (RFC 8292 section 3)."""
    scheme, _, rest = authorization.partition(" ")
    fields = dict(part.split("=", 1) for part in rest.split(","))
    assert scheme == "vapid"
    point = KEY.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    assert fields["k"] == base64.urlsafe_b64encode(point).rstrip(b"=").decode()
    found: dict[str, object] = jwt.decode(
        fields["t"], KEY.public_key(), algorithms=["ES256"], options={"verify_aud": False, "verify_exp": False}
    )
    return found


def test_each_push_service_has_its_own_audience_P10(key_file: Path) -> None:
    tokens = VapidTokens(key_file, "mailto:ops@shop.example", lambda: 1_800_000_000.0)
    first, second = (tokens.authorization(f"https://{host}") for host in ("a.example", "b.example"))
    again = tokens.authorization("https://a.example")
    assert claims(first) == {
        "aud": "https://a.example",
        "exp": 1_800_000_000 + LIFE_SEC,
        "sub": "mailto:ops@shop.example",
    }
    assert claims(second)["aud"] == "https://b.example"
    assert again == first


def test_a_token_lives_at_most_a_day_and_is_renewed_in_time_P10(key_file: Path) -> None:
    now = [1_800_000_000.0]
    tokens = VapidTokens(key_file, "https://shop.example", lambda: now[0])
    first = tokens.authorization("https://a.example")
    assert LIFE_SEC <= 24 * 3600
    now[0] += LIFE_SEC - 3601
    assert tokens.authorization("https://a.example") == first
    now[0] += 2
    renewed = tokens.authorization("https://a.example")
    assert claims(renewed)["exp"] == int(now[0]) + LIFE_SEC


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ec.generate_private_key(ec.SECP384R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    ],
    ids=["empty", "garbage", "rsa", "p384"],
)
def test_a_file_without_the_right_key_is_refused_by_the_setting_s_name(pem: bytes, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(pem)
    with pytest.raises(ValueError, match="ULAK_WEBPUSH_VAPID_KEY_FILE"):
        VapidTokens(path, "mailto:ops@shop.example", lambda: 0.0)
