"""APNs: `POST /3/device/{token}` over HTTP/2."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ops.simulator.exchange import Answer, Clock, Reply, Request, json_reply
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.providers.apns.reference import reference
from ops.simulator.providers.apns.rule import (
    TIMESTAMPED,
    USUAL_REASON,
    Refusal,
    device_token,
    is_message_id,
    parsed,
    problems,
    refusal,
)
from ops.simulator.providers.apns.token import ProviderTokens


@dataclass(frozen=True, slots=True)
class Apns:
    """Order of checks: provider token, target, headers, payload, then tokens with a programmed prefix.

    topics: bundle ids the key may send to; empty means any.
    """

    tokens: ProviderTokens
    topics: frozenset[str]
    clock: Clock

    name: ClassVar[str] = "apns"
    ledgered: ClassVar[bool] = True

    def read(self, request: Request) -> Arrival:
        payload = parsed(request.body)
        content = {
            "headers": {name: value for name, value in request.headers if name.startswith("apns-")},
            "payload": payload if payload is not None else request.body.decode("utf-8", errors="replace"),
            "bytes": len(request.body),
            "problems": problems(request, self.clock()),
        }
        return Arrival(to=device_token(request.path) or None, reference=reference(request), content=content)

    def answer(self, request: Request, _arrival: Arrival, now: datetime, _action: Action | None) -> Answer:
        message_id = _message_id(request)
        refused = self.tokens.refusal(request.header("authorization"), request.connection, now)
        refused = refused or refusal(request, self.topics)
        if refused is not None:
            return Answer(_refuse(refused, message_id, now), error=refused.reason)
        return Answer(Reply(200, (("apns-id", message_id),)), provider_message_id=message_id)

    def refusal(self, status: int, request: Request, now: datetime) -> Reply:
        return _refuse(Refusal(USUAL_REASON.get(status, "InternalServerError")), _message_id(request), now)


def _message_id(request: Request) -> str:
    """The sender's apns-id, or one made here in Apple's form."""
    given = request.header("apns-id")
    return given if given is not None and is_message_id(given) else str(uuid.uuid4()).upper()


def _refuse(refused: Refusal, message_id: str, now: datetime) -> Reply:
    body: dict[str, object] = {"reason": refused.reason}
    if refused.reason in TIMESTAMPED:
        body["timestamp"] = int(now.timestamp() * 1000)
    return json_reply(refused.status, body, ("apns-id", message_id))
