"""What a user says of channels, over the API; fixtures: me (the running service), pool (its database), types."""

from typing import Any

import asyncpg
import orjson
import pytest
from redis.asyncio import Redis

from shared.core.address import target_key
from shared.core.consent import user_subject
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from tests.integration.ingest.conftest import until
from tests.integration.me.conftest import PREFERENCES, Me

CHANNELS = {"EMAIL", "PUSH", "SMS", "INBOX"}


async def test_a_user_who_said_nothing_is_told_everything_that_the_law_allows(me: Me) -> None:
    answer = await me.get(PREFERENCES)
    assert answer.status_code == 200
    body = answer.json()
    assert {category: set(body[category]) for category in ("SECURITY", "TRANSACTIONAL", "MARKETING")} == {
        "SECURITY": CHANNELS,
        "TRANSACTIONAL": CHANNELS,
        "MARKETING": CHANNELS,
    }
    assert all(wanted for category in ("SECURITY", "TRANSACTIONAL", "MARKETING") for wanted in body[category].values())
    assert body["own"] == {"SECURITY": {}, "TRANSACTIONAL": {}, "MARKETING": {}}
    assert body["types"] == {}
    assert body["consents"] == dict.fromkeys(CHANNELS, "none")


async def test_the_seeds_put_changes_only_what_it_names(me: Me) -> None:
    first = await me.put(PREFERENCES, {"MARKETING": {"PUSH": False, "EMAIL": True}})
    assert first.status_code == 200
    second = (await me.put(PREFERENCES, {"TRANSACTIONAL": {"SMS": False}})).json()
    assert second["MARKETING"] == {"PUSH": False, "EMAIL": True, "SMS": True, "INBOX": True}
    assert second["TRANSACTIONAL"]["SMS"] is False
    assert second["own"] == {
        "SECURITY": {},
        "TRANSACTIONAL": {"SMS": False},
        "MARKETING": {"PUSH": False, "EMAIL": True},
    }
    assert (await me.get(PREFERENCES)).json() == second


async def test_a_type_may_have_a_word_of_its_own(me: Me, types: None) -> None:
    body = (await me.put(PREFERENCES, {"types": {"ORDER_SHIPPED": {"PUSH": False}}})).json()
    assert body["types"] == {"ORDER_SHIPPED": {"PUSH": False}}
    assert body["TRANSACTIONAL"]["PUSH"] is True
    row = await me.pool.fetchrow("SELECT category, channel, type, enabled FROM ulak.user_preferences")
    assert tuple(row or ()) == ("TRANSACTIONAL", "PUSH", "ORDER_SHIPPED", False)


@pytest.mark.parametrize(
    ("body", "code", "path"),
    [
        pytest.param({"NEWS": {"PUSH": True}}, "invalid_request", "NEWS", id="category"),
        pytest.param({"MARKETING": {"FAX": True}}, "unknown_channel", "MARKETING.FAX", id="channel"),
        pytest.param({"MARKETING": {"PUSH": "no"}}, "invalid_request", "MARKETING.PUSH", id="not-a-boolean"),
        pytest.param({"MARKETING": False}, "invalid_request", "MARKETING", id="not-an-object"),
        pytest.param({"SECURITY": {"EMAIL": False}}, "security_locked", "SECURITY.EMAIL", id="security"),
        pytest.param({"types": {"NO_SUCH": {"PUSH": False}}}, "unknown_type", "types.NO_SUCH", id="type"),
        pytest.param(
            {"types": {"ORDER_SHIPPED": {"FAX": True}}}, "unknown_channel", "types.ORDER_SHIPPED.FAX", id="tc"
        ),
        pytest.param(
            {"types": {"PASSWORD_CHANGED": {"PUSH": False}}}, "security_locked", "types.PASSWORD_CHANGED.PUSH", id="ts"
        ),
        pytest.param([], "invalid_request", "", id="list"),
    ],
)
async def test_what_cannot_be_is_refused_with_its_path_and_nothing_is_stored(
    me: Me, types: None, body: Any, code: str, path: str
) -> None:
    mixed = {"TRANSACTIONAL": {"PUSH": False}} | body if isinstance(body, dict) else body
    answer = await me.put(PREFERENCES, mixed)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert [error["path"] for error in answer.json()["errors"]] == [path]
    assert answer.headers["content-type"] == "application/problem+json"
    assert await me.pool.fetchval("SELECT count(*) FROM ulak.user_preferences") == 0


async def test_a_body_that_is_not_json_is_400(me: Me) -> None:
    answer = await me.client.put(
        PREFERENCES, content=b'{"MARKETING":', headers=me.headers() | {"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_json")


async def test_one_user_neither_sees_nor_changes_what_another_said(me: Me) -> None:
    await me.put(PREFERENCES, {"MARKETING": {"PUSH": False}}, user="7")
    await me.put(PREFERENCES, {"MARKETING": {"EMAIL": False}}, user="8")
    seven, eight = (await me.get(PREFERENCES, "7")).json(), (await me.get(PREFERENCES, "8")).json()
    assert (seven["own"]["MARKETING"], eight["own"]["MARKETING"]) == ({"PUSH": False}, {"EMAIL": False})


async def test_an_integer_sub_is_the_same_user_as_its_decimal_form(me: Me) -> None:
    await me.put(PREFERENCES, {"MARKETING": {"PUSH": False}}, user=7)
    assert (await me.get(PREFERENCES, "7")).json()["own"]["MARKETING"] == {"PUSH": False}


async def test_consents_are_shown_and_a_preference_does_not_change_them(
    me: Me, pool: asyncpg.Pool, key_ring: KeyRing
) -> None:
    key = target_key(key_ring, "EMAIL", "ayse@example.com")
    user_id = await pool.fetchval(
        "INSERT INTO ulak.recipients (external_id, email_key, email_sealed) VALUES ('7', $1, '') RETURNING user_id", key
    )
    states = [("EMAIL", key, True), ("PUSH", user_subject(key_ring, user_id), False)]
    for channel, subject, granted in states:
        await pool.execute(
            "INSERT INTO ulak.consent_states (subject, channel, purpose, granted, at, consent_id) "
            "VALUES ($1, $2, 'MARKETING', $3, now(), $4)",
            subject,
            channel,
            granted,
            new_id(),
        )
    body = (await me.put(PREFERENCES, {"MARKETING": {"EMAIL": False}})).json()
    assert body["consents"] == {"EMAIL": "granted", "PUSH": "withdrawn", "SMS": "none", "INBOX": "none"}
    assert body["MARKETING"]["EMAIL"] is False
    assert await pool.fetchval("SELECT count(*) FROM ulak.consents") == 0
    assert await pool.fetchval("SELECT bool_and(granted) FROM ulak.consent_states WHERE channel = 'EMAIL'")


async def test_a_change_is_told_to_the_other_processes_after_its_commit(
    me: Me, redis_client: Redis, key_prefix: str
) -> None:
    async with redis_client.pubsub() as subscription:
        await subscription.subscribe(f"{key_prefix}invalidation")
        await me.put(PREFERENCES, {"MARKETING": {"PUSH": False}})
        user_id = await me.pool.fetchval("SELECT user_id FROM ulak.recipients WHERE external_id = '7'")

        async def told() -> Any:
            message = await subscription.get_message(ignore_subscribe_messages=True, timeout=1.0)
            return message and orjson.loads(message["data"])

        assert await until(told, seconds=60) == {"kind": "preferences", "keys": [str(user_id)]}
