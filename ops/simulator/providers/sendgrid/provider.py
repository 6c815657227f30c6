"""SendGrid's v3 API: `POST /v3/mail/send`."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final

import orjson

from ops.simulator.exchange import Answer, Reply, Request
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.providers.sendgrid.reference import reference
from ops.simulator.providers.sendgrid.rule import (
    MAX_BYTES,
    UNVERIFIED,
    UNVERIFIED_SENDER,
    Problem,
    attached,
    dicts,
    problems,
    recipients_of,
    refused,
    usual,
)

PATH: Final = "/v3/mail/send"


@dataclass(frozen=True, slots=True)
class Sendgrid:
    """Order of checks: key, method, size, JSON, sender, then each parameter. One entry of the ledger a request."""

    api_key: str

    name: ClassVar[str] = "sendgrid"
    ledgered: ClassVar[bool] = True

    def read(self, request: Request) -> Arrival:
        body = _body(request)
        recipients = recipients_of(body)
        shown = {name: value for name, value in body.items() if name != "attachments"}
        files = [
            {
                "name": part.get("filename"),
                "contentType": part.get("type"),
                "contentId": part.get("content_id"),
                "disposition": part.get("disposition"),
                "bytes": len(attached(part)),
                "sha256": hashlib.sha256(attached(part)).hexdigest(),
            }
            for part in dicts(body.get("attachments"))
        ]
        content = {"rcptTo": list(recipients), "body": shown, "attachments": files}
        return Arrival(next(iter(recipients), None), reference(body), content, recipients)

    def answer(self, request: Request, _arrival: Arrival, _now: datetime, _action: Action | None) -> Answer:
        scheme, _, key = (request.header("authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.encode(), self.api_key.encode()):
            return Answer(usual(401), error="401")
        if request.method != "POST":
            return Answer(refused(405, Problem("Method Not Allowed")), error="405")
        if len(request.body) > MAX_BYTES:
            return Answer(usual(413), error="413")
        body = _body(request)
        sender = body.get("from")
        if isinstance(sender, dict) and str(sender.get("email")).startswith(UNVERIFIED):
            return Answer(UNVERIFIED_SENDER, error="403")
        found = problems(body)
        if found:
            return Answer(refused(400, *found), error=f"400 {found[0].field}")
        message_id = secrets.token_urlsafe(16)
        return Answer(Reply(202, (("x-message-id", message_id),)), provider_message_id=message_id)

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        return usual(status)


def _body(request: Request) -> Mapping[str, Any]:
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
