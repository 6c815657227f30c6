"""Twilio's REST API: `POST /2010-04-01/Accounts/{sid}/Messages.json`, and the message fetched again."""

import base64
import binascii
import hmac
import re
import urllib.parse
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from ops.simulator.exchange import Answer, Reply, Request, json_reply
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.providers.twilio.message import API_VERSION, Message, MessageStore, new_sid
from ops.simulator.providers.twilio.receipt import StatusCallbacks
from ops.simulator.providers.twilio.reference import reference
from ops.simulator.providers.twilio.rule import (
    AUTHENTICATE,
    METHOD_NOT_ALLOWED,
    Problem,
    not_found,
    refusal,
    usual,
)
from ops.simulator.providers.twilio.segment import segments

PATH_PREFIX: Final = f"/{API_VERSION}/"
_MESSAGES: Final = re.compile(rf"^/{API_VERSION}/Accounts/([^/]+)/Messages\.json$")
_MESSAGE: Final = re.compile(rf"^/{API_VERSION}/Accounts/([^/]+)/Messages/(SM[0-9a-f]{{32}})\.json$")


@dataclass(frozen=True, slots=True)
class Account:
    sid: str
    auth_token: str

    def admits(self, authorization: str | None) -> bool:
        """HTTP basic authentication with the account's sid and token (RFC 7617)."""
        scheme, _, encoded = (authorization or "").partition(" ")
        try:
            given = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            return False
        return scheme.lower() == "basic" and hmac.compare_digest(given, f"{self.sid}:{self.auth_token}".encode())


@dataclass(frozen=True, slots=True)
class Twilio:
    """Creating messages. Order of checks: credentials, account, method, then the form."""

    account: Account
    store: MessageStore
    callbacks: StatusCallbacks

    name: ClassVar[str] = "twilio"
    ledgered: ClassVar[bool] = True

    def read(self, request: Request) -> Arrival:
        form = _form(request)
        callback = form.get("StatusCallback") or None
        content = {
            "from": form.get("From"),
            "messagingServiceSid": form.get("MessagingServiceSid"),
            "body": form.get("Body"),
            "numSegments": segments(form.get("Body", "")),
            "statusCallback": callback,
            "form": form,
        }
        return Arrival(form.get("To") or None, reference(callback), content)

    def answer(self, request: Request, arrival: Arrival, now: datetime, action: Action | None) -> Answer:
        form = _form(request)
        problem = self._problem(request) or refusal(form)
        if problem is not None:
            return Answer(problem.reply(), error=str(problem.code))
        by_service = bool(form.get("MessagingServiceSid"))
        message = Message(
            sid=new_sid(),
            account_sid=self.account.sid,
            to=form["To"],
            sender=form.get("From") or None,
            service_sid=form.get("MessagingServiceSid") or None,
            body=form.get("Body", ""),
            segments=segments(form.get("Body", "")),
            status="accepted" if by_service else "queued",
            status_callback=form.get("StatusCallback") or None,
            reference=arrival.reference,
            created_at=now,
            updated_at=now,
        )
        self.store.add(message)
        receipt = action.receipt if action is not None else None
        if receipt is None:
            self.callbacks.schedule(message, "delivered", None)
        else:
            self.callbacks.schedule(message, receipt.status, receipt.error_code)
        return Answer(json_reply(201, message.resource()), provider_message_id=message.sid)

    def refusal(self, status: int, request: Request, _now: datetime) -> Reply:
        return usual(status, request.path).reply()

    def _problem(self, request: Request) -> Problem | None:
        if not self.account.admits(request.header("authorization")):
            return AUTHENTICATE
        path = _MESSAGES.match(request.path)
        if path is None or path[1] != self.account.sid:
            return not_found(request.path)
        return None if request.method == "POST" else METHOD_NOT_ALLOWED


@dataclass(frozen=True, slots=True)
class TwilioFetch:
    """Reading a message back: `GET .../Messages/{sid}.json`. It can be faulted, but is not in the ledger."""

    account: Account
    store: MessageStore

    name: ClassVar[str] = "twilio-fetch"
    ledgered: ClassVar[bool] = False

    def read(self, _request: Request) -> Arrival:
        return Arrival(None, None, {})

    def answer(self, request: Request, _arrival: Arrival, _now: datetime, _action: Action | None) -> Answer:
        if not self.account.admits(request.header("authorization")):
            return Answer(AUTHENTICATE.reply(), error=str(AUTHENTICATE.code))
        path = _MESSAGE.match(request.path)
        message = self.store.get(path[2]) if path is not None and path[1] == self.account.sid else None
        if message is None:
            return Answer(not_found(request.path).reply(), error="20404")
        return Answer(json_reply(200, message.resource()))

    def refusal(self, status: int, request: Request, _now: datetime) -> Reply:
        return usual(status, request.path).reply()


def _form(request: Request) -> dict[str, str]:
    """The form's fields, the first of a name; empty for another content type, as Twilio then finds no parameters."""
    kind = (request.header("content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return {}
    pairs = urllib.parse.parse_qsl(request.body.decode("utf-8", errors="replace"), keep_blank_values=True)
    return dict(reversed(pairs))
