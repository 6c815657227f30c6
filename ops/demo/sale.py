"""Marketing: refused without consent, sent with it, never at night, and a dry run that says so beforehand."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from ops.demo.chapter import AYSE, Line, Told
from ops.demo.world import DidNotHappenError, World, eventually, instant

_ISTANBUL: Final = ZoneInfo("Europe/Istanbul")
_PUSHES: Final = 2
"""Ayşe's phone and tablet."""


async def november_sale(world: World) -> Told:
    refused = await _decided(world, await world.accept(_sale("sale-before")))
    if {delivery["reason"] for delivery in refused["deliveries"]} != {"no_consent"}:
        raise DidNotHappenError(f"nobody consented, so nothing was to be sent, but: {refused['deliveries']}")
    consent = {
        "userId": AYSE,
        "channel": "PUSH",
        "granted": True,
        "at": datetime.now(UTC).isoformat(),
        "source": "HS_MOBIL",
        "wordingVersion": "2026-11",
    }
    await world.told("/internal/v1/consents", consent)
    planned = await world.told("/internal/v1/notifications/dry-run", _sale("sale-planned"))
    sent = await _decided(world, await world.accept(_sale("sale-after")), waits="until" in planned)
    lines = [
        Line("before she consented", "not sent: no_consent"),
        Line("the e-mail, to which she said nothing", "not sent: no_consent"),
    ]
    if sent["state"] == "DEFERRED":
        lines.insert(1, Line("push, once she said yes", f"waits for the morning: {_hour(planned['until'])}"))
    else:
        accepted = instant(sent["createdAt"])
        pushes = await eventually(lambda: _pushes(world), "the sale's pushes")
        took = max(0.0, (instant(pushes[-1]["receivedAt"]) - accepted).total_seconds())
        lines.insert(1, Line("push, once she said yes", "apns, fcm", took))
    return Told(lines)


def _sale(event_id: str) -> dict[str, Any]:
    ends = datetime.now(UTC) + timedelta(days=1)
    return {
        "eventId": f"demo-{event_id}",
        "userId": AYSE,
        "type": "NOVEMBER_SALE",
        "params": {"discountPercent": 30, "endsAt": ends.isoformat(timespec="seconds")},
    }


async def _decided(world: World, notification_id: str, *, waits: bool = False) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found = await world.by_id(notification_id)
        return found if found["state"] == ("DEFERRED" if waits else "DECIDED") else None

    # The daily cap waits a moment after the router's first start (docs/decision.md).
    return await eventually(look, f"the decision about {notification_id}", within_sec=60)


async def _pushes(world: World) -> list[dict[str, Any]] | None:
    arrived = [*await world.arrived("apns"), *await world.arrived("fcm")]
    sales = [push for push in arrived if "Kasım" in str(push["content"])]
    return sales if len(sales) == _PUSHES else None


def _hour(text: str) -> str:
    return f"{instant(text).astimezone(_ISTANBUL):%H:%M} in Istanbul"
