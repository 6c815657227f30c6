"""Preferences and devices as a back office keeps them; tests/integration/me tries their rules over the user's API."""

from typing import Any

import httpx
import orjson
import pytest
from redis.asyncio import Redis

from shared.core.address import target_key
from shared.core.sealing import KeyRing
from tests.integration.ingest.admin.audit import audited, last_detail, whole_log
from tests.integration.ingest.conftest import Ingest, until

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

USER = "/internal/v1/recipients/7"
PREFERENCES, DEVICES = f"{USER}/preferences", f"{USER}/devices"
TOKEN = "dQw4tablet7:APA91bF-sample-registration-token-of-the-tablet"
ANDROID: dict[str, Any] = {"platform": "ANDROID", "token": TOKEN, "deviceId": "Ayşe's tablet"}


async def number_of(ingest: Ingest) -> str:
    return str(await ingest.pool.fetchval("SELECT user_id FROM ulak.recipients WHERE external_id = '7'"))


async def put(ingest: Ingest, body: Any) -> httpx.Response:
    return await ingest.client.put(PREFERENCES, json=body)


async def test_words_are_kept_told_and_written_down(ingest: Ingest) -> None:
    assert (await ingest.client.get(PREFERENCES)).status_code == 404

    changed = await put(ingest, {"MARKETING": {"PUSH": False}, "types": {"ORDER_SHIPPED": {"EMAIL": False}}})

    assert changed.status_code == 200
    assert changed.json() == (await ingest.client.get(PREFERENCES)).json()
    assert changed.json()["own"] == {"SECURITY": {}, "TRANSACTIONAL": {}, "MARKETING": {"PUSH": False}}
    assert changed.json()["types"] == {"ORDER_SHIPPED": {"EMAIL": False}}
    assert await audited(ingest.pool) == [("updated", "preferences", await number_of(ingest))]
    assert await last_detail(ingest.pool) == {"fields": ["MARKETING.PUSH", "types.ORDER_SHIPPED.EMAIL"]}


async def test_refused_words_change_nothing(ingest: Ingest) -> None:
    locked = await put(ingest, {"MARKETING": {"PUSH": False}, "SECURITY": {"EMAIL": False}})
    unknown = await put(ingest, {"types": {"NOBODY_KNOWS": {"EMAIL": False}}})
    assert (locked.status_code, locked.json()["code"]) == (422, "security_locked")
    assert (unknown.status_code, unknown.json()["code"]) == (422, "unknown_type")
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.user_preferences") == 0
    assert await audited(ingest.pool) == []


async def test_devices_are_registered_seen_again_and_forgotten(ingest: Ingest, key_ring: KeyRing) -> None:
    assert (await ingest.client.get(DEVICES)).status_code == 404

    first, again = await ingest.post(DEVICES, ANDROID), await ingest.post(DEVICES, ANDROID)

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["token"] == f"…{TOKEN[-4:]}"
    assert await ingest.pool.fetchval("SELECT token_key FROM ulak.devices") == target_key(key_ring, "PUSH", TOKEN)
    (listed,) = (await ingest.client.get(DEVICES)).json()["devices"]
    assert listed == again.json()
    assert (await ingest.client.delete(f"{DEVICES}/another")).status_code == 404
    assert (await ingest.client.delete(f"{DEVICES}/Ayşe's tablet")).status_code == 204
    assert (await ingest.client.get(DEVICES)).json() == {"devices": []}
    number = await number_of(ingest)
    assert await audited(ingest.pool) == [(action, "device", number) for action in ("created", "updated", "deleted")]
    log = await whole_log(ingest.pool)
    assert TOKEN not in log
    assert "Ayşe" not in log, "people name their devices after themselves"


async def test_a_user_has_so_many_devices_and_no_more(ingest: Ingest) -> None:
    for count in range(4):
        assert (await ingest.post(DEVICES, {"platform": "ANDROID", "token": f"{TOKEN}{count}"})).status_code == 201
    tokens = [device["token"] for device in (await ingest.client.get(DEVICES)).json()["devices"]]
    assert tokens == ["…let3", "…let2", "…let1"]


async def test_a_subscription_leads_to_the_internet_alone(ingest: Ingest) -> None:
    keys = {"p256dh": "BP" + "a" * 85, "auth": "a" * 22}
    body = {"platform": "WEB", "subscription": {"endpoint": "https://127.0.0.1/push", "keys": keys}}
    refused = await ingest.post(DEVICES, body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_subscription")
    assert "127.0.0.1" not in refused.text


async def test_words_count_at_once_in_every_process(ingest: Ingest, redis_client: Redis, key_prefix: str) -> None:
    """Others that remember this user are told by Redis."""
    async with redis_client.pubsub() as subscription:
        await subscription.subscribe(f"{key_prefix}invalidation")
        await put(ingest, {"MARKETING": {"PUSH": False}})

        async def told() -> Any:
            message = await subscription.get_message(ignore_subscribe_messages=True, timeout=1.0)
            return message and orjson.loads(message["data"])

        assert await until(told, seconds=60) == {"kind": "preferences", "keys": [await number_of(ingest)]}
