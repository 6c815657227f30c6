"""One notification's facts, with nothing against it: tests change what they are about."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from shared.core.catalogue import NotificationType, default_fallback, default_quiet_hours
from shared.decision.facts import Facts, Mode, Target
from shared.wire.channel import Category

NOW: Final = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)

PHONE: Final = Target(b"phone", b"s1", "IOS", "shop")
TABLET: Final = Target(b"tablet", b"s2", "ANDROID", "shop")
MAIL: Final = Target(b"mail", b"s3")
NUMBER: Final = Target(b"number", b"s4")
USER: Final = b"user"
BOX: Final = Target(USER, b"")


def a_type(name: str, category: Category, *channels: str) -> NotificationType:
    """With its category's defaults, as the catalogue reads them."""
    return NotificationType(
        name,
        category,
        category.message_class,
        channels,
        HOUR,
        quiet_hours=default_quiet_hours(category),
        fallback_channels=default_fallback(category),
    )


SHIPPED: Final = a_type("ORDER_SHIPPED", Category.TRANSACTIONAL, "PUSH", "EMAIL")
OTP: Final = a_type("OTP", Category.SECURITY, "SMS")
SALE: Final = a_type("WINTER_SALE", Category.MARKETING, "PUSH")

FACTS: Final = Facts(
    notification_id=UUID(int=1),
    type=SHIPPED,
    mode=Mode.LIVE,
    expires_at=NOW + HOUR,
    targets={"PUSH": (PHONE, TABLET), "EMAIL": (MAIL,), "SMS": (NUMBER,), "INBOX": (BOX,)},
    templates=frozenset({"PUSH", "EMAIL", "SMS", "INBOX"}),
    user_subject=USER,
)
CONSENTS: Final = frozenset({("PUSH", USER), ("INBOX", USER), ("EMAIL", MAIL.key), ("SMS", NUMBER.key)})
