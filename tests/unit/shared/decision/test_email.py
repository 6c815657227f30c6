"""What becomes of an e-mail request, case by case; the answers follow from seed 003's rules and issue 4."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.core.catalogue import Catalogue, NotificationType, Template
from shared.core.email import EmailRequest, parse_recipients
from shared.core.lifecycle import Reason
from shared.decision.email import Known, decide_email
from shared.decision.facts import Mode
from shared.decision.verdict import GO, Go, Skip
from shared.wire.channel import Category, MessageClass

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def a_type(name: str, category: Category) -> NotificationType:
    return NotificationType(name, category, MessageClass.TX, ("EMAIL",), HOUR)


def a_template(name: str, locale: str = "tr") -> Template:
    return Template(name, "EMAIL", locale, 1, {"subject": "s", "text": "t"}, frozenset())


CATALOGUE = Catalogue(
    [
        a_type("PASSWORD_RESET", Category.SECURITY),
        a_type("ORDER_SHIPPED", Category.TRANSACTIONAL),
        a_type("WINTER_SALE", Category.MARKETING),
        a_type("WORDLESS", Category.TRANSACTIONAL),
        a_type("ENGLISH", Category.TRANSACTIONAL),
    ],
    [
        a_template("PASSWORD_RESET"),
        a_template("ORDER_SHIPPED"),
        a_template("WINTER_SALE"),
        a_template("ENGLISH", "en"),
    ],
    [],
)
TRANSACTIONAL, SECURITY = Category.TRANSACTIONAL, Category.SECURITY
KNOWN = Known(UUID(int=1), NOW, (b"ayse", b"mehmet"))
OFF = {(TRANSACTIONAL, "EMAIL", ""): False, (SECURITY, "EMAIL", ""): False}


def request(template: str, type_name: str | None = None, locale: str | None = None) -> EmailRequest:
    recipients = parse_recipients(["ayse@example.com"], ["mehmet@example.com"])
    return EmailRequest(recipients, template, {}, type=type_name, locale=locale)


def skip(reason: Reason) -> tuple[Go | Skip, Go | Skip]:
    return Skip(reason), Skip(reason)


@pytest.mark.parametrize(
    ("asked", "known", "recipients"),
    [
        pytest.param(request("ORDER_SHIPPED"), KNOWN, (GO, GO), id="nothing-against-it"),
        pytest.param(request("NO_SUCH"), KNOWN, skip(Reason.UNKNOWN_TYPE), id="unknown-type"),
        pytest.param(
            request("ORDER_SHIPPED", "NO_SUCH"), KNOWN, skip(Reason.UNKNOWN_TYPE), id="the-type-named-is-unknown"
        ),
        pytest.param(request("WORDLESS"), KNOWN, skip(Reason.NO_TEMPLATE), id="no-template"),
        pytest.param(request("ENGLISH"), KNOWN, skip(Reason.NO_TEMPLATE), id="no-template-in-the-default-locale"),
        pytest.param(request("ENGLISH", locale="en-GB"), KNOWN, (GO, GO), id="template-in-the-requests-locale"),
        pytest.param(request("ENGLISH"), replace(KNOWN, locale="en"), (GO, GO), id="template-in-the-users-locale"),
        pytest.param(request("WORDLESS", "ORDER_SHIPPED"), KNOWN, skip(Reason.NO_TEMPLATE), id="templates-own-words"),
        pytest.param(request("WINTER_SALE"), KNOWN, skip(Reason.NO_CONSENT), id="marketing-without-consent"),
        pytest.param(
            request("ORDER_SHIPPED", "WINTER_SALE"), KNOWN, skip(Reason.NO_CONSENT), id="its-type-is-what-counts"
        ),
        pytest.param(
            request("WINTER_SALE"),
            replace(KNOWN, consented=frozenset({b"ayse", b"mehmet"})),
            (GO, GO),
            id="marketing-with-consent",
        ),
        pytest.param(
            request("WINTER_SALE"),
            replace(KNOWN, consented=frozenset({b"mehmet"})),
            (Skip(Reason.NO_CONSENT), GO),
            id="one-recipients-consent-is-not-the-others",
        ),
        pytest.param(
            request("ORDER_SHIPPED"), replace(KNOWN, preferences=OFF), skip(Reason.PREFERENCE), id="switched-off"
        ),
        pytest.param(
            request("PASSWORD_RESET"), replace(KNOWN, preferences=OFF), (GO, GO), id="security-ignores-preferences"
        ),
        pytest.param(
            request("ORDER_SHIPPED"),
            replace(KNOWN, preferences=OFF | {(TRANSACTIONAL, "EMAIL", "ORDER_SHIPPED"): True}),
            (GO, GO),
            id="the-types-own-word-before-the-categorys",
        ),
        pytest.param(
            request("ORDER_SHIPPED"),
            replace(KNOWN, preferences={(TRANSACTIONAL, "EMAIL", "ORDER_SHIPPED"): False}),
            skip(Reason.PREFERENCE),
            id="this-type-alone-switched-off",
        ),
        pytest.param(
            request("ORDER_SHIPPED"),
            replace(KNOWN, preferences={(TRANSACTIONAL, "PUSH", ""): False}),
            (GO, GO),
            id="another-channel-switched-off",
        ),
        pytest.param(
            request("ORDER_SHIPPED"),
            replace(KNOWN, suppressed=frozenset({b"mehmet"})),
            (GO, Skip(Reason.SUPPRESSED)),
            id="one-recipient-suppressed",
        ),
        pytest.param(
            request("PASSWORD_RESET"),
            replace(KNOWN, suppressed=frozenset({b"ayse", b"mehmet"})),
            skip(Reason.SUPPRESSED),
            id="a-dead-address-is-dead-for-security-too",
        ),
        pytest.param(
            request("ORDER_SHIPPED"),
            replace(KNOWN, mode=Mode.TEST, suppressed=frozenset({b"mehmet"})),
            (GO, GO),
            id="test-mode-counts-in-no-suppression",
        ),
        pytest.param(
            request("ORDER_SHIPPED"),
            replace(KNOWN, mode=Mode.TEAM, allow_list=frozenset({b"ayse"})),
            (GO, Skip(Reason.NOT_ON_ALLOW_LIST)),
            id="a-team-key-reaches-its-list",
        ),
        pytest.param(
            request("ORDER_SHIPPED"),
            replace(KNOWN, created_at=NOW - HOUR),
            skip(Reason.EXPIRED),
            id="the-types-time-to-live-is-over",
        ),
        pytest.param(
            request("ORDER_SHIPPED"),
            replace(KNOWN, created_at=NOW - HOUR, expires_at=NOW + HOUR),
            (GO, GO),
            id="its-own-time-to-live-counts",
        ),
    ],
)
def test_recipients(asked: EmailRequest, known: Known, recipients: tuple[Go | Skip, ...]) -> None:
    decision = decide_email(asked, known, CATALOGUE, NOW, default_locale="tr")
    assert decision.recipients == recipients
    assert decision.verdict == (GO if GO in recipients else recipients[0])


def test_the_time_to_live_is_told() -> None:
    decision = decide_email(request("ORDER_SHIPPED"), KNOWN, CATALOGUE, NOW, default_locale="tr")
    assert decision.expires_at == NOW + HOUR
    assert [step.rule for step in decision.trail] == ["category", "preference", "ttl", "template"]
