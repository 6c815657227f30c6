"""Look-ups of types, templates and mappings; a recipient's locale finds the nearest template (J3)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.catalogue import Catalogue, EventMapping, NotificationType, Template
from shared.core.ports import SenderProfile
from shared.core.sender import StoredProfile
from shared.wire.channel import EMAIL, SMS, Category, MessageClass, Promise

SHIPPED = NotificationType(
    name="ORDER_SHIPPED",
    category=Category.TRANSACTIONAL,
    message_class=MessageClass.TX,
    default_channels=("PUSH", "EMAIL"),
    ttl=timedelta(days=1),
    promises={"SMS": Promise.AT_LEAST_ONCE},
)


def template(locale: str, version: int = 1) -> Template:
    return Template("ORDER_SHIPPED", "EMAIL", locale, version, {"subject": locale}, frozenset())


def mapping(name: str, event_type: str) -> EventMapping:
    return EventMapping(name, event_type, "ORDER_SHIPPED", "", "data.customerId", {})


CATALOGUE = Catalogue(
    [SHIPPED],
    [template("tr"), template("en"), template("en-GB"), template("pt_BR")],
    [mapping("buyer", "OrderShipped"), mapping("seller", "OrderShipped"), mapping("other", "OrderPaid")],
)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param("tr", "tr", id="exact"),
        pytest.param("tr-TR", "tr", id="language-of-a-region"),
        pytest.param("tr_TR", "tr", id="underscore"),
        pytest.param("en-GB", "en-GB", id="region"),
        pytest.param("EN-gb", "en-GB", id="case-does-not-count"),
        pytest.param("en-US", "en", id="other-region"),
        pytest.param("pt-BR", "pt_BR", id="underscore-in-the-template"),
        pytest.param("zh-Hant-TW", "tr", id="default"),
        pytest.param(None, "tr", id="no-locale"),
        pytest.param("", "tr", id="empty-locale"),
    ],
)
def test_locale_falls_back_J3(asked: str | None, found: str) -> None:
    chosen = CATALOGUE.template("ORDER_SHIPPED", "EMAIL", asked, "tr-TR")
    assert chosen is not None
    assert chosen.locale == found


def test_without_a_template_there_is_none_J3() -> None:
    assert CATALOGUE.template("ORDER_SHIPPED", "EMAIL", "fr", "de") is None
    assert CATALOGUE.template("ORDER_SHIPPED", "SMS", "tr", "tr") is None
    assert CATALOGUE.template("NO_SUCH_TYPE", "EMAIL", "tr", "tr") is None


def test_one_event_may_have_several_mappings() -> None:
    assert [entry.name for entry in CATALOGUE.mappings("OrderShipped")] == ["buyer", "seller"]
    assert CATALOGUE.mappings("NoSuchEvent") == ()


def test_types() -> None:
    assert CATALOGUE.type("ORDER_SHIPPED") is SHIPPED
    assert CATALOGUE.type("NO_SUCH_TYPE") is None
    assert CATALOGUE.types == (SHIPPED,)


def test_promise_is_the_types_or_else_the_channels() -> None:
    assert SHIPPED.promise(SMS) is Promise.AT_LEAST_ONCE
    assert SHIPPED.promise(EMAIL) is Promise.AT_LEAST_ONCE
    plain = NotificationType("X", Category.SECURITY, MessageClass.CRITICAL, ("SMS",), timedelta(minutes=3))
    assert plain.promise(SMS) is Promise.AT_MOST_ONCE


def test_sender_is_the_types_or_none() -> None:
    orders = StoredProfile("orders", SenderProfile("orders@shop.example"))
    types = [replace(SHIPPED, sender_profile="orders"), replace(SHIPPED, name="PLAIN")]
    catalogue = Catalogue(types, (), (), [orders])
    assert catalogue.sender("ORDER_SHIPPED") is orders
    assert catalogue.sender("PLAIN") is None
    assert catalogue.sender("NO_SUCH_TYPE") is None
    assert catalogue.senders == (orders,)
