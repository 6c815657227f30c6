"""Web Push on real sockets: what a browser reads, what its push service answers, and whom nobody may have us call."""

import ipaddress
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import orjson
import pytest

from services.workers.push.strategy import PUSH
from shared.core.identifier import new_id
from shared.core.outcome import Accepted, Outcome, Permanent, ProviderDown, Scope, TargetGone, Throttled, Transient
from shared.core.ports import Prepared, SendWindow
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing
from shared.core.web_push import Address
from shared.profile.settings import DeviceSettings
from shared.providers.push.webpush.client import WEB_PUSH, WebPushSender, open_web_push
from shared.providers.push.webpush.request import MAX_PLAIN_BYTES, payload
from shared.runtime.push_host import Resolve, ResolverError
from shared.wire.channel import MessageClass
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.world import Seeded, Seeder, make_world
from tests.integration.me.conftest import DEVICES, running, settings_of, token
from tests.integration.plain_http import plain_client

WINDOW = SendWindow(deadline_sec=5.0)
STRANGER = "https://push.example"


def resolver(*addresses: str) -> Resolve:
    async def resolve(_host: str) -> Sequence[Address]:
        return [ipaddress.ip_address(text) for text in addresses]

    return resolve


def message(address: str, **content: str) -> Prepared:
    return Prepared(
        key=DeliveryKey(new_id(), "PUSH", b"t" * 32),
        attempt=1,
        address=address,
        content={"title": "Kargonuz yolda", "body": "İyi günler", **content},
        message_class=MessageClass.TX,
        expires_at=datetime.now(UTC) + timedelta(hours=1),
        platform="WEBPUSH",
    )


@asynccontextmanager
async def sender(simulator: Simulator, resolve: Resolve, **changes: Any) -> AsyncIterator[WebPushSender]:
    async with open_web_push(simulator.webpush(**changes), resolve) as opened:
        yield opened


async def sent(simulator: Simulator, *messages: Prepared, resolve: Resolve | None = None) -> Sequence[Outcome]:
    async with sender(simulator, resolve or resolver()) as opened:
        return await opened.send(messages, WINDOW)


async def test_a_message_as_the_browser_reads_it(simulator: Simulator) -> None:
    shown = message(
        simulator.subscription("browser-1"),
        **{"url": "https://shop.example/o/1", "data.order": "98213", "collapseKey": "order-98213"},
    )
    campaign = new_id()
    (outcome,) = await sent(simulator, replace(shown, campaign_id=campaign))
    assert outcome == Accepted()
    (received,) = await simulator.accepted("webpush")
    assert (received["to"], received["reference"]) == ("browser-1", shown.key.reference)
    read = received["content"]["payload"]
    assert read["title"] == "Kargonuz yolda"
    assert read["body"] == "İyi günler"
    assert read["url"] == "https://shop.example/o/1"
    assert read["data"] == {"order": "98213"}
    assert read["tag"] == "order-98213"
    assert read["notificationId"].startswith("ntf_")
    assert read["campaignId"].startswith("cmp_")
    headers = received["content"]["headers"]
    assert 3590 <= int(headers["ttl"]) <= 3600
    assert headers["urgency"] == "high"
    assert headers["topic"] == "order-98213"
    assert headers["content-encoding"] == "aes128gcm"


async def test_a_payload_is_taken_up_to_the_last_byte_and_not_one_more_P7(simulator: Simulator) -> None:
    exact = message(simulator.subscription("browser-1"), body="")
    room = MAX_PLAIN_BYTES - plain_size(exact)
    fits = replace(exact, content={**exact.content, "body": "a" * room})
    over = replace(exact, content={**exact.content, "body": "a" * (room + 1)})
    first, second = await sent(simulator, fits, over)
    assert first == Accepted()
    assert isinstance(second, Permanent)
    assert "over 3,993: shorten" in second.detail
    (received,) = await simulator.messages("webpush")
    assert received["content"]["bytes"] == 4096


def plain_size(each: Prepared) -> int:
    return len(orjson.dumps(payload(each)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("unknown-1", TargetGone("404 no such subscription")),
        ("gone-1", TargetGone("410 unsubscribed")),
        ("large-1", Permanent("413 payload too large")),
        ("mismatch-1", Permanent("403 the subscription was made with another VAPID key", dead_letter=False)),
        ("limited-1", Throttled(Scope.DOMAIN, "429 too many requests", 7.0)),
        ("busy-1", Transient("503 from the push service")),
    ],
)
async def test_what_a_push_service_answers_P11(name: str, expected: Outcome, simulator: Simulator) -> None:
    assert await sent(simulator, message(simulator.subscription(name))) == [expected]


async def test_a_signature_that_is_refused_is_ours_and_one_key_signs_for_all(simulator: Simulator) -> None:
    await simulator.fault("webpush", times=1, status=401)
    each = [message(simulator.subscription(f"browser-{number}")) for number in range(3)]
    outcomes = await sent(simulator, *each)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Accepted", "Accepted", "ProviderDown"]
    down = next(outcome for outcome in outcomes if isinstance(outcome, ProviderDown))
    assert "ULAK_WEBPUSH_VAPID_KEY_FILE" in down.detail


async def test_redirects_are_not_followed_P12(simulator: Simulator) -> None:
    await simulator.fault("webpush", times=1, status=307, headers={"location": simulator.endpoints["webpush"] + "x"})
    (outcome,) = await sent(simulator, message(simulator.subscription("browser-1")))
    assert outcome == Permanent("307 redirect, which is not followed", dead_letter=False)
    assert len(await simulator.messages("webpush")) == 1


# ---------------------------------------------------------------- whom nobody may have us call (P12)


@pytest.mark.parametrize(
    "address",
    [
        ["127.0.0.1"],
        ["10.0.0.8"],
        ["169.254.169.254"],
        ["192.168.1.1"],
        ["100.64.0.1"],
        ["::1"],
        ["fd00::1"],
        ["fe80::1"],
        ["::ffff:10.0.0.8"],
        ["64:ff9b::a00:8"],
        ["0.0.0.0"],
        ["224.0.0.1"],
        ["8.8.8.8", "10.0.0.8"],
    ],
    ids="+".join,
)
async def test_a_name_that_leads_into_our_network_is_not_called(address: list[str], simulator: Simulator) -> None:
    to = message(simulator.subscription("/x", service=STRANGER))
    (outcome,) = await sent(simulator, to, resolve=resolver(*address))
    assert outcome == Permanent(
        "not called: the host is not one of the internet: give the browser's own endpoint", dead_letter=False
    )


@pytest.mark.parametrize(
    "service",
    [
        "https://127.0.0.1",
        "https://[::1]",
        "https://10.0.0.8",
        "https://2130706433",
        "https://localhost",
        "http://push.example",
        "https://push.example:8443",
        "https://user@push.example",
        "https://127.0.0.1:1",
    ],
)
async def test_what_no_registration_would_take_is_not_called_either(service: str, simulator: Simulator) -> None:
    """A row may be older than the rule, or than the list of trusted hosts."""
    to = message(simulator.subscription("/x", service=service))
    (outcome,) = await sent(simulator, to, resolve=resolver("8.8.8.8"))
    assert isinstance(outcome, Permanent), outcome
    assert outcome.detail.startswith("not called: ")


async def test_what_is_no_subscription_is_permanent(simulator: Simulator) -> None:
    outcomes = await sent(simulator, *(message(text) for text in ("token", "{}", "[]", '{"endpoint": 1, "keys": {}}')))
    assert set(outcomes) == {Permanent("not called: not a browser's subscription", dead_letter=False)}


async def test_a_strangers_answers_hold_up_their_own_message_alone(simulator: Simulator) -> None:
    to = message(simulator.subscription("/x", service=STRANGER))
    async with sender(simulator, unanswering) as opened:
        (outcome,) = await opened.send([to], WINDOW)
    assert outcome == Throttled(Scope.TARGET, "the name service does not answer")


async def unanswering(_host: str) -> Sequence[Address]:
    raise ResolverError("no answer")


# ---------------------------------------------------------------- from the browser and back to it


@pytest.mark.postgres
@pytest.mark.redis
async def test_a_browser_registers_gets_its_push_and_is_switched_off_when_it_has_gone(
    simulator: Simulator, database: str, pool: asyncpg.Pool, redis_url: str, key_prefix: str, key_ring: KeyRing
) -> None:
    trusted = urlsplit(simulator.endpoints["webpush"]).netloc
    settings = replace(settings_of(database, redis_url, key_prefix), device=DeviceSettings(trusted_push_hosts=trusted))
    async with running(settings, key_ring) as url, plain_client(base_url=url, timeout=60) as client:
        for name in ("browser-1", "gone-1"):
            body = {"platform": "WEB", "deviceId": name, "subscription": orjson.loads(simulator.subscription(name))}
            answer = await client.post(DEVICES, json=body, headers={"authorization": f"Bearer {token('7')}"})
            assert answer.status_code == 201, answer.text
    devices = await pool.fetch("SELECT token_key, token_sealed, platform FROM ulak.devices")
    async with sender(simulator, resolver()) as opened:
        world = make_world("push-tx", pool, key_ring, senders={"webpush": opened}, order=PUSH.order([WEB_PUSH]))
        for device in devices:
            await world.work(await seeded_for(world.seeder, device))
    assert sorted(world.statuses()) == [("FAILED", "target_gone"), ("SENT", None)]
    (received,) = await simulator.accepted("webpush")
    assert received["to"] == "browser-1"
    left = await pool.fetch("SELECT device_id, active FROM ulak.devices ORDER BY device_id")
    assert [tuple(row) for row in left] == [("browser-1", True), ("gone-1", False)]


async def seeded_for(seeder: Seeder, device: asyncpg.Record) -> Seeded:
    """A delivery to a registered device, as the router makes it: its key and sealed address are the device's own."""
    target, sealed = device["token_key"], device["token_sealed"]
    columns = {"target_key": target, "address_sealed": sealed}
    made = await seeder.delivery("PUSH", platform=device["platform"], columns=columns)
    hint = replace(made.hint, target_key=target)
    return Seeded(DeliveryKey(made.key.notification_id, "PUSH", target), hint)
