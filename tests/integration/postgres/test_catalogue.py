"""The catalogue comes from its tables in one reading, and is read again when it is old."""

import asyncio
import hashlib
from datetime import timedelta

import pytest

from shared.core.catalogue import EventMapping, NotificationType, Template
from shared.core.ports import SenderProfile
from shared.core.sender import SealedKey, StoredProfile
from shared.postgres.catalogue import CatalogueCache, read_catalogue
from shared.postgres.pool import Pool
from shared.wire.channel import Category, MessageClass, Promise

pytestmark = pytest.mark.postgres


async def fill(pool: Pool) -> None:
    await pool.execute(
        "INSERT INTO ulak.sender_profiles"
        " (name, from_address, from_name, reply_to, return_path, dkim_domain, dkim_selector, dkim_key_sealed)"
        " VALUES ('orders', 'orders@shop.example', 'Shop', 'help@shop.example', NULL, 'shop.example', 's1', 'sealed'),"
        "        ('plain', 'no-reply@shop.example', '', NULL, 'bounces@shop.example', NULL, NULL, NULL)"
    )
    await pool.execute(
        "INSERT INTO ulak.notification_types"
        " (type, category, message_class, default_channels, ttl_seconds, promises, sender_profile)"
        " VALUES ('ORDER_SHIPPED', 'TRANSACTIONAL', 1, '{PUSH,EMAIL}', 86400, $1, 'orders')",
        {"SMS": "AT_LEAST_ONCE"},
    )
    for version, active in ((1, False), (2, True)):
        await pool.execute(
            "INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active)"
            " VALUES ('ORDER_SHIPPED', 'PUSH', 'tr', $1, $2, '{carrier}', $3, $4)",
            version,
            {"title": "Kargoda", "body": "{{ carrier }}"},
            hashlib.sha256(bytes([version])).digest(),
            active,
        )
    await pool.execute(
        "INSERT INTO ulak.event_mappings (name, event_type, notification_type, role, recipient, params, active)"
        " VALUES ('shipped', 'OrderShipped', 'ORDER_SHIPPED', 'buyer', 'data.customerId', $1, true),"
        "        ('old', 'OrderShipped', 'ORDER_SHIPPED', '', 'data.customerId', $1, false)",
        {"carrier": "data.carrier"},
    )


async def test_what_is_read(pool: Pool) -> None:
    await fill(pool)
    catalogue = await read_catalogue(pool)
    assert catalogue.types == (
        NotificationType(
            name="ORDER_SHIPPED",
            category=Category.TRANSACTIONAL,
            message_class=MessageClass.TX,
            default_channels=("PUSH", "EMAIL"),
            ttl=timedelta(days=1),
            promises={"SMS": Promise.AT_LEAST_ONCE},
            sender_profile="orders",
            fallback_channels=("EMAIL",),
        ),
    )
    assert catalogue.daily_cap(Category.MARKETING, "PUSH") == 3, "seed 003"
    assert catalogue.sender("ORDER_SHIPPED") == StoredProfile(
        "orders",
        SenderProfile("orders@shop.example", "Shop", "help@shop.example"),
        SealedKey("shop.example", "s1", b"sealed"),
    )
    assert {sender.name: sender for sender in catalogue.senders}["plain"] == StoredProfile(
        "plain", SenderProfile("no-reply@shop.example", return_path="bounces@shop.example")
    )
    assert catalogue.templates("ORDER_SHIPPED", "PUSH") == (
        Template(
            "ORDER_SHIPPED", "PUSH", "tr", 2, {"title": "Kargoda", "body": "{{ carrier }}"}, frozenset({"carrier"})
        ),
    )
    assert catalogue.mappings("OrderShipped") == (
        EventMapping(
            "shipped", "OrderShipped", "ORDER_SHIPPED", "buyer", "data.customerId", {"carrier": "data.carrier"}
        ),
    )


async def test_it_is_kept_for_its_time_and_read_once_for_all_who_ask(pool: Pool) -> None:
    moment = 100.0
    cache = CatalogueCache(pool, ttl_sec=5, clock=lambda: moment)
    first = await cache.get()
    assert first.type("ORDER_SHIPPED") is None
    await fill(pool)
    moment = 104.9
    assert await cache.get() is first
    moment = 105.0
    seen = await asyncio.gather(*(cache.get() for _ in range(20)))
    assert len({id(catalogue) for catalogue in seen}) == 1
    assert seen[0].type("ORDER_SHIPPED") is not None
