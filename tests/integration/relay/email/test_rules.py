"""Rows that may not be sent, or not as they are: rules, time to live, and what no rule foresaw."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.core.address import target_key
from shared.core.catalogue import NotificationType
from shared.core.consent import Line, Source
from shared.core.control import Pause, PauseKind
from shared.core.email import EmailRequest
from shared.core.identifier import new_id
from shared.core.outcome import (
    TargetGone,
    Transient,
)
from shared.core.ports import Envelope
from shared.delivery.mail import Mail
from shared.postgres.consent import append
from shared.redis_store.token_bucket import Quota
from shared.wire.channel import Category, MessageClass
from tests.integration.relay.email.world import AYSE, BORA, World, push_template

pytestmark = pytest.mark.postgres

GONE = TargetGone("rcpt 550 5.1.1")
BUSY = Transient("end 451 4.3.0", not_processed=True)


async def test_dead_addresses_are_suppressed_for_every_later_mail(world: World) -> None:
    world.server.answers[AYSE] = [GONE]
    await world.enqueue(AYSE)
    await world.drain()
    later = await world.enqueue(AYSE, BORA)
    alone = await world.enqueue("Ayşe <AYSE@Example.com>")
    await world.drain()

    row = await world.row(later)
    assert row["outcomes"] == {"0": "FAILED suppressed", "1": "SENT"}
    assert row["error_message"] == "suppressed: 1 of 2 recipients refused: suppressed"
    row = await world.row(alone)
    assert (row["status"], row["error_message"], row["attempt_count"]) == ("FAILED", "suppressed", 0)
    assert [mail.recipients for mail in world.server.mails] == [(AYSE,), (BORA,)]


@pytest.mark.parametrize(
    ("enqueued", "error"),
    [
        pytest.param({"template": "WINTER_SALE", "priority": "tx"}, "no_consent", id="marketing"),
        pytest.param({"type": "WINTER_SALE"}, "no_consent", id="marketing-by-type"),
        pytest.param({"template": "NO_SUCH"}, "unknown_type", id="unknown-type"),
        pytest.param({"template": "NO_SUCH", "type": "ORDER_SHIPPED"}, "no_template", id="no-template"),
        pytest.param({"parameters": {}}, "render", id="parameter-missing"),
        pytest.param({"attachments": [{"filename": "a.pdf"}]}, "invalid", id="attachment-without-reference"),
        pytest.param(
            {"attachments": [{"filename": "a", "contentType": "x/y", "storageRef": "http://files.example/a"}]},
            "invalid",
            id="reference-that-is-none",
        ),
        pytest.param({"expires_in": timedelta(seconds=-1)}, "expired", id="expired"),
        pytest.param({"user_id": "7"}, "preference", id="switched-off-by-the-user"),
    ],
)
async def test_what_can_never_be_sent_fails_at_once_with_its_reason(
    world: World, enqueued: dict[str, Any], error: str
) -> None:
    user_id = await world.own.fetchval("INSERT INTO ulak.recipients (external_id) VALUES ('7') RETURNING user_id")
    await world.own.execute(
        "INSERT INTO ulak.user_preferences (user_id, category, channel, enabled) "
        "VALUES ($1, 'TRANSACTIONAL', 'EMAIL', false)",
        user_id,
    )
    row_id = await world.enqueue(AYSE, **enqueued)
    after = await world.enqueue(BORA)
    await world.drain()

    row = await world.row(row_id)
    assert (row["status"], row["attempt_count"]) == ("FAILED", 0)
    assert row["error_message"].split(":")[0] == error
    assert "example.com" not in row["error_message"]
    assert row["sealed"], "nobody reads its recipients any more"
    mended = error in {"unknown_type", "no_template", "render"}
    assert (row["parameters"] is not None) is mended, "kept where a person can mend it, then requeue"
    assert (await world.row(after))["status"] == "SENT", "the rows behind it are not blocked"
    assert [mail.recipients for mail in world.server.mails] == [(BORA,)]


async def consents(world: World, *addresses: str, granted: bool = True) -> None:
    keys = [target_key(world.ring, "EMAIL", address) for address in addresses]
    lines = [Line(new_id(), key, "EMAIL", granted, datetime.now(UTC), Source.HS_WEB) for key in keys]
    async with world.own.acquire() as connection, connection.transaction():
        await append(connection, world.ring, lines)


async def test_marketing_goes_to_those_who_consented_alone(world: World) -> None:
    await consents(world, AYSE)
    row_id = await world.enqueue(AYSE, BORA, template="WINTER_SALE", priority="bulk")
    await world.drain(message_class=MessageClass.BULK)
    row = await world.row(row_id)
    assert row["outcomes"] == {"0": "SENT", "1": "FAILED no_consent"}
    assert [mail.recipients for mail in world.server.mails] == [(AYSE,)]


async def test_a_complaint_about_marketing_keeps_no_other_mail(world: World) -> None:
    await consents(world, AYSE)
    await world.own.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, reason, scope) "
        "VALUES ('EMAIL', $1, 'complaint', 'MARKETING')",
        target_key(world.ring, "EMAIL", AYSE),
    )
    sale = await world.enqueue(AYSE, template="WINTER_SALE", priority="bulk")
    order = await world.enqueue(AYSE)
    await world.drain(message_class=MessageClass.BULK)
    await world.drain()
    assert (await world.row(sale))["error_message"] == "suppressed"
    assert (await world.row(order))["status"] == "SENT"


async def test_who_withdraws_while_mails_are_under_way_gets_none_C5(world: World) -> None:
    """The claim and its decisions are made; tokens come one at a time, and Bora leaves after the first mail."""
    await consents(world, AYSE, BORA)
    first = await world.enqueue(AYSE, template="WINTER_SALE", priority="bulk")
    second = await world.enqueue(BORA, template="WINTER_SALE", priority="bulk")

    async def leave() -> None:
        if not world.server.mails:
            await consents(world, BORA, granted=False)

    world.server.before = leave
    await world.drain(message_class=MessageClass.BULK, quotas={"smtp": Quota("smtp", 8.0)})
    assert (await world.row(first))["status"] == "SENT"
    row = await world.row(second)
    assert (row["status"], row["error_message"], row["attempt_count"]) == ("FAILED", "no_consent", 0)
    assert [mail.recipients for mail in world.server.mails] == [(AYSE,)]


@pytest.mark.parametrize(
    ("zone", "wakes"),
    [
        pytest.param(None, "2026-12-02T06:00Z", id="the-default-zones-night"),
        pytest.param("Europe/London", "2026-12-02T09:00Z", id="the-users-night"),
        pytest.param("America/New_York", None, id="the-users-afternoon"),
    ],
)
async def test_marketing_waits_for_the_users_morning(world: World, zone: str | None, wakes: str | None) -> None:
    """At half past one in Istanbul, 22:30 in London and 17:30 in New York."""
    await world.own.execute(
        "UPDATE ulak.notification_types SET quiet_hours = NULL, ttl_seconds = 10 * 86400 WHERE type = 'WINTER_SALE'"
    )
    await world.own.execute("INSERT INTO ulak.recipients (external_id, time_zone) VALUES ('7', $1)", zone)
    await consents(world, AYSE)
    row_id = await world.enqueue(AYSE, template="WINTER_SALE", priority="bulk", user_id="7")
    night = datetime(2026, 12, 1, 22, 30, tzinfo=UTC)
    await world.update(row_id, created_at=night, next_attempt_at=night - timedelta(days=365), expires_at=None)
    world.now[:] = [night]
    await world.drain(message_class=MessageClass.BULK)
    row = await world.row(row_id)
    if wakes is None:
        assert row["status"] == "SENT"
        return
    assert (row["status"], row["attempt_count"], row["error_message"]) == ("PENDING", 0, "quiet_hours")
    morning = datetime.fromisoformat(wakes)
    assert morning <= row["next_attempt_at"] < morning + timedelta(minutes=15)
    assert world.server.mails == []

    world.now[:] = [morning + timedelta(minutes=15)]
    await world.update(row_id, next_attempt_at=night - timedelta(days=365))
    await world.drain(message_class=MessageClass.BULK)
    assert (await world.row(row_id))["status"] == "SENT"


async def test_security_mail_ignores_the_preference_and_the_types_own_word_wins(world: World) -> None:
    user_id = await world.own.fetchval("INSERT INTO ulak.recipients (external_id) VALUES ('7') RETURNING user_id")
    await world.own.executemany(
        "INSERT INTO ulak.user_preferences (user_id, category, channel, type, enabled) "
        "VALUES ($1, $2, 'EMAIL', $3, $4)",
        [
            (user_id, "SECURITY", "", False),
            (user_id, "TRANSACTIONAL", "", False),
            (user_id, "TRANSACTIONAL", "ORDER_SHIPPED", True),
        ],
    )
    await world.enqueue(AYSE, user_id="7")
    await world.enqueue(BORA, template="PASSWORD_CHANGED", user_id="7", priority="critical")
    await world.drain()
    await world.drain(message_class=MessageClass.CRITICAL)
    assert await world.statuses() == {"SENT": 2}


async def test_a_priority_lowers_a_mail_below_its_types_class_and_never_raises_it(world: World) -> None:
    raised = await world.enqueue(AYSE, priority="critical")
    lowered = await world.enqueue(BORA, template="PASSWORD_CHANGED", priority="bulk")
    await world.drain(message_class=MessageClass.CRITICAL)
    row = await world.row(raised)
    assert (row["status"], row["message_class"], row["attempt_count"]) == ("PENDING", MessageClass.TX, 0)
    await world.drain(message_class=MessageClass.TX)
    assert (await world.row(raised))["status"] == "SENT"
    await world.drain(message_class=MessageClass.BULK)
    assert (await world.row(lowered))["status"] == "SENT"


async def test_the_users_locale_speaks_where_the_row_names_none(world: World) -> None:
    await push_template(world.own, "ORDER_SHIPPED", {"subject": "Order {{ orderNo }}", "text": "x"}, locale="en")
    await world.own.execute("INSERT INTO ulak.recipients (external_id, locale) VALUES ('7', 'en-GB')")
    await world.enqueue(AYSE, user_id="7")
    await world.enqueue(BORA, user_id="7", locale="tr")
    await world.drain()
    assert {mail.recipients[0]: mail.subject for mail in world.server.mails} == {
        AYSE: "Order 98213",
        BORA: "Siparişiniz 98213",
    }


async def test_a_type_pushed_a_moment_ago_is_found(world: World) -> None:
    """The catalogue is at most a second old before a row fails by it; the cache here never keeps anything."""
    row_id = await world.enqueue(AYSE, template="NEW_TYPE")
    await world.own.execute(
        "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds) "
        "VALUES ('NEW_TYPE', 'TRANSACTIONAL', 1, '{EMAIL}', 3600)"
    )
    await push_template(world.own, "NEW_TYPE", {"subject": "Yeni", "text": "{{ orderNo }}"})
    await world.drain()
    assert (await world.row(row_id))["status"] == "SENT"


# ---------------------------------------------------------------- poison


class SurprisedMaker:
    """A defect that one template brings out."""

    async def make(self, request: EmailRequest, *, message_reference: str, user_locale: str | None = None) -> Mail:
        if request.parameters["orderNo"] == "poison":
            raise ZeroDivisionError("a defect of ours")
        found = NotificationType("T", Category.TRANSACTIONAL, MessageClass.TX, ("EMAIL",), timedelta(days=1))
        return Mail({"subject": "s", "text": "t"}, Envelope(message_reference), found)


async def test_a_surprise_takes_no_neighbour_along(world: World) -> None:
    poison = await world.enqueue(AYSE, parameters={"orderNo": "poison"})
    after = await world.enqueue(BORA)
    await world.drain(maker=SurprisedMaker())
    row = await world.row(poison)
    assert (row["status"], row["error_message"]) == ("FAILED", "render: surprise: ZeroDivisionError")
    assert row["parameters"] is not None
    assert (await world.row(after))["status"] == "SENT"


@pytest.mark.parametrize(
    "outcomes",
    [
        [1, 2],
        {"x": "SENT"},
        {"0": 7},
        {"0": "FAILED no_such_reason"},
        {"0": "maybe"},
        {"5": "SENT"},
        {"-1": "SENT"},
    ],
    ids=str,
)
async def test_outcomes_that_we_would_not_write_are_nobodys(world: World, outcomes: Any) -> None:
    row_id = await world.enqueue(AYSE)
    await world.update(row_id, outcomes=outcomes)
    await world.drain()
    row = await world.row(row_id)
    assert (row["status"], row["outcomes"]) == ("SENT", {"0": "SENT"})
    assert len(world.server.mails) == 1


# ---------------------------------------------------------------- time to live


async def test_time_to_live_is_the_types_from_the_rows_birth(world: World) -> None:
    young = await world.enqueue(AYSE)
    old = await world.enqueue(BORA)
    now = datetime.now(UTC)
    await world.update(young, created_at=now - timedelta(hours=23, minutes=59))
    await world.update(old, created_at=now - timedelta(hours=24))
    await world.drain()
    assert (await world.row(young))["status"] == "SENT"
    row = await world.row(old)
    assert (row["status"], row["error_message"], row["parameters"]) == ("FAILED", "expired", None)


async def test_no_retry_is_planned_past_the_end(world: World) -> None:
    row_id = await world.enqueue(AYSE, expires_in=timedelta(seconds=8))
    world.server.answers[AYSE] = [BUSY]
    await world.drain()
    row = await world.row(row_id)
    assert (row["status"], row["error_message"]) == ("FAILED", "expired: end 451 4.3.0")
    assert row["parameters"] is None


async def test_mails_of_a_paused_type_rest_uncounted_until_it_goes_on(world: World) -> None:
    world.paused["ORDER_SHIPPED"] = Pause(
        new_id(), PauseKind.TYPE, "ORDER_SHIPPED", "wrong price", "operator ada", datetime.now(UTC)
    )
    held = await world.enqueue(AYSE)
    await world.drain()
    row = await world.row(held)
    assert (row["status"], row["attempt_count"]) == ("PENDING", 0)
    assert row["error_message"] == "paused: type ORDER_SHIPPED, by operator ada: wrong price"
    assert row["next_attempt_at"] > datetime.now(UTC)
    assert world.server.mails == []

    world.paused.clear()
    await world.source.execute("UPDATE ulak.email_messages SET next_attempt_at = now()")
    await world.drain()
    assert (await world.row(held))["status"] == "SENT"
