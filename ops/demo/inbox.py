"""The inbox: written with the decision, counted exactly, read on one device for all."""

from ops.demo.chapter import AYSE, Line, Told
from ops.demo.world import DidNotHappenError, World, eventually

_ORDER = {
    "orderNo": "98213",
    "total": "1499.90",
    "currency": "TRY",
    "items": [{"name": "Kahve makinesi", "quantity": 1}, {"name": "Filtre kağıdı", "quantity": 3}],
}


async def order_placed(world: World) -> Told:
    notification_id = await world.accept(
        {"eventId": "demo-order-98213-PLACED", "userId": AYSE, "type": "ORDER_PLACED", "params": _ORDER}
    )

    async def look() -> dict[str, object] | None:
        inbox = await world.as_user(AYSE, "GET", "/notifications")
        return next((item for item in inbox["items"] if item["notificationId"] == notification_id), None)

    entry = await eventually(look, "the entry in the inbox")
    mail = await eventually(lambda: _mail(world), "the e-mail about the order")
    before = await world.as_user(AYSE, "GET", "/notifications/unread-count")
    after = await world.as_user(AYSE, "POST", f"/notifications/{notification_id}/read")
    if after["unread"] != before["unread"] - 1:
        raise DidNotHappenError(f"reading one of {before['unread']} left {after['unread']} unread")
    return Told(
        [
            Line(f"inbox: {entry['title']}", str(entry["body"])),
            Line("e-mail", mail),
            Line("read in the app", f"{before['unread']} unread before, {after['unread']} after"),
        ]
    )


async def _mail(world: World) -> str | None:
    for message in await world.arrived("smtp", "ayse@example.com"):
        subject = str(message["content"]["headers"].get("Subject", ""))
        if "siparişinizi aldık" in subject:
            return subject
    return None
