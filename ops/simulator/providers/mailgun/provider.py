"""Mailgun's API: `POST /v3/{domain}/messages.mime`."""

import base64
import binascii
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from ops.simulator.exchange import Answer, Reply, Request, json_reply
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.mail import read_mail
from ops.simulator.providers.mailgun.rule import FORBIDDEN, NO_DOMAIN, Problem, read_form, refusal, usual

PATH: Final = re.compile(r"^/v3/([^/]+)/messages\.mime$")


@dataclass(frozen=True, slots=True)
class Account:
    domain: str
    api_key: str

    def admits(self, authorization: str | None) -> bool:
        """HTTP basic authentication as the user `api` (RFC 7617)."""
        scheme, _, encoded = (authorization or "").partition(" ")
        try:
            given = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            return False
        return scheme.lower() == "basic" and hmac.compare_digest(given, f"api:{self.api_key}".encode())


@dataclass(frozen=True, slots=True)
class Mailgun:
    """Order of checks: key, domain, form, then the mail."""

    account: Account

    name: ClassVar[str] = "mailgun"
    ledgered: ClassVar[bool] = True

    def read(self, request: Request) -> Arrival:
        form = read_form(request)
        to = form.all("to")
        content: dict[str, object] = {"rcptTo": list(to), "fields": [list(field) for field in form.fields]}
        if form.message is None:
            return Arrival(next(iter(to), None), None, content, to)
        mail = read_mail(form.message, eight_bit=False, utf8=False)
        return Arrival(next(iter(to), None), mail.reference, content | mail.content(len(form.message)), to)

    def answer(self, request: Request, _arrival: Arrival, _now: datetime, _action: Action | None) -> Answer:
        if not self.account.admits(request.header("authorization")):
            return Answer(FORBIDDEN, error="401")
        path = PATH.match(request.path)
        if path is None or path[1] != self.account.domain or request.method != "POST":
            return Answer(NO_DOMAIN.reply(), error="404")
        form = read_form(request)
        problem = refusal(form)
        if problem is not None or form.message is None:
            return _refused(problem or Problem("message parameter is missing"))
        mail = read_mail(form.message, eight_bit=False, utf8=False)
        if mail.problems:
            return _refused(Problem(mail.problems[0]))
        message_id = mail.headers["Message-ID"]
        reply = json_reply(200, {"id": message_id, "message": "Queued. Thank you."})
        return Answer(reply, provider_message_id=message_id.strip("<>"))

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        return usual(status)


def _refused(problem: Problem) -> Answer:
    return Answer(problem.reply(), error=f"{problem.status} {problem.message}")
