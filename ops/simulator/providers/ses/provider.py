"""Amazon SES's API v2: `POST /v2/email/outbound-emails` with raw content."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final

import orjson

from ops.simulator.exchange import Answer, Reply, Request, json_reply
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.mail import read_mail
from ops.simulator.providers.ses.rule import SIGNATURE, UNKNOWN_OPERATION, raw_of, recipients_of, refusal, usual
from ops.simulator.providers.ses.signature import fault

PATH_PREFIX: Final = "/v2/email/"
_SEND: Final = "/v2/email/outbound-emails"


@dataclass(frozen=True, slots=True)
class Account:
    access_key_id: str
    secret_access_key: str
    region: str


@dataclass(frozen=True, slots=True)
class Ses:
    """Order of checks: signature, operation, then the body."""

    account: Account

    name: ClassVar[str] = "ses"
    ledgered: ClassVar[bool] = True

    def read(self, request: Request) -> Arrival:
        body = _body(request)
        raw = raw_of(body)
        recipients = recipients_of(body)
        content: dict[str, object] = {
            "rcptTo": list(recipients),
            "configurationSet": body.get("ConfigurationSetName"),
            "feedbackTo": body.get("FeedbackForwardingEmailAddress"),
        }
        if raw is None:
            return Arrival(next(iter(recipients), None), None, content, recipients)
        mail = read_mail(raw, eight_bit=False, utf8=False)
        return Arrival(next(iter(recipients), None), mail.reference, content | mail.content(len(raw)), recipients)

    def answer(self, request: Request, _arrival: Arrival, now: datetime, _action: Action | None) -> Answer:
        account = self.account
        unsigned = fault(request, account.access_key_id, account.secret_access_key, account.region, now)
        if unsigned is not None:
            return Answer(SIGNATURE[unsigned].reply(), error=unsigned)
        if (request.method, request.path) != ("POST", _SEND):
            return Answer(UNKNOWN_OPERATION.reply(), error=UNKNOWN_OPERATION.type)
        body = _body(request)
        raw = raw_of(body)
        mail = None if raw is None else read_mail(raw, eight_bit=False, utf8=False)
        problem = refusal(body, raw, mail)
        if problem is not None:
            return Answer(problem.reply(), error=problem.type)
        message_id = f"0100{secrets.token_hex(6)}-{secrets.token_hex(4)}-000000"
        return Answer(json_reply(200, {"MessageId": message_id}), provider_message_id=message_id)

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        return usual(status).reply()


def _body(request: Request) -> Mapping[str, Any]:
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
