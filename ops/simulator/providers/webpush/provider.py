"""A browser's push service: `POST /wpush/v2/{subscription}` over HTTP/2 (RFC 8030)."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from ops.simulator.exchange import Answer, Reply, Request
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.providers.webpush.browser import Browser
from ops.simulator.providers.webpush.reference import reference
from ops.simulator.providers.webpush.rule import refusal, token_of, usual

_SHOWN: Final = frozenset({"ttl", "urgency", "topic", "content-encoding", "content-type"})


@dataclass(frozen=True, slots=True)
class WebPush:
    """Order of checks: path, headers, VAPID, size, then subscriptions with a programmed beginning.

    Unlike a real push service it can read the messages, because the browser behind its subscriptions is its own.
    """

    browser: Browser
    origin: str

    name: ClassVar[str] = "webpush"
    ledgered: ClassVar[bool] = True

    def read(self, request: Request) -> Arrival:
        payload = self.browser.read(request.body)
        content = {
            "headers": {name: value for name, value in request.headers if name in _SHOWN},
            "payload": payload,
            "bytes": len(request.body),
        }
        return Arrival(token_of(request.path) or None, reference(payload), content)

    def answer(self, request: Request, _arrival: Arrival, now: datetime, _action: Action | None) -> Answer:
        refused = refusal(request, self.origin, now)
        if refused is not None:
            return Answer(refused.reply(), error=f"{refused.status} {refused.errno}")
        message_id = str(uuid.uuid4())
        location = f"{self.origin}/m/{message_id}"
        ttl = request.header("ttl") or "0"
        return Answer(Reply(201, (("location", location), ("ttl", ttl))), provider_message_id=message_id)

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        return usual(status).reply()
