"""Vonage's SMS API: `POST /sms/json` with basic authentication."""

import base64
import hmac
import secrets
import urllib.parse
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from ops.simulator.exchange import Answer, Reply, Request, json_reply
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.providers.twilio.segment import is_gsm7, segments
from ops.simulator.providers.vonage.reference import reference
from ops.simulator.providers.vonage.rule import TEXTS, refusal

PATH: Final = "/sms/json"
PRICE: Final = "0.03330000"
"""Of each part, as in the reference's example."""
_REPLACED: Final = "?"


@dataclass(frozen=True, slots=True)
class Vonage:
    """Order of checks: credentials, then the form."""

    api_key: str
    api_secret: str

    name: ClassVar[str] = "vonage"
    ledgered: ClassVar[bool] = True

    def read(self, request: Request) -> Arrival:
        form = _form(request)
        number = form.get("to")
        content = {"from": form.get("from"), "body": form.get("text"), "numSegments": _parts(form), "form": form}
        return Arrival(f"+{number}" if number else None, reference(form), content)

    def answer(self, request: Request, _arrival: Arrival, _now: datetime, _action: Action | None) -> Answer:
        form = _form(request)
        if not self._admits(request.header("authorization")):
            return Answer(_refused("4", TEXTS["4"]), error="4")
        refused = refusal(form)
        if refused is not None:
            return Answer(_refused(*refused), error=refused[0])
        parts = [self._part(form) for _ in range(_parts(form))]
        reply = json_reply(200, {"message-count": str(len(parts)), "messages": parts})
        return Answer(reply, provider_message_id=parts[0]["message-id"])

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        return _refused("1", TEXTS["1"], status) if status == 429 else _refused("5", TEXTS["5"], status)

    def _part(self, form: dict[str, str]) -> dict[str, str]:
        part = {
            "to": form["to"],
            "message-id": secrets.token_hex(8).upper(),
            "status": "0",
            "remaining-balance": "15.53590000",
            "message-price": PRICE,
            "network": "28601",
        }
        return part | ({"client-ref": form["client-ref"]} if "client-ref" in form else {})

    def _admits(self, authorization: str | None) -> bool:
        expected = base64.b64encode(f"{self.api_key}:{self.api_secret}".encode()).decode()
        return hmac.compare_digest((authorization or "").encode(), f"Basic {expected}".encode())


def _refused(status: str, text: str, http_status: int = 200) -> Reply:
    return json_reply(http_status, {"message-count": "1", "messages": [{"status": status, "error-text": text}]})


def _parts(form: dict[str, str]) -> int:
    """Parts of the text in its type: as `text`, what GSM-7 lacks is replaced, as Vonage does."""
    text = form.get("text", "")
    if form.get("type", "text") == "unicode":
        return segments(text)
    return segments("".join(character if is_gsm7(character) else _REPLACED for character in text))


def _form(request: Request) -> dict[str, str]:
    pairs = urllib.parse.parse_qsl(request.body.decode("utf-8", errors="replace"), keep_blank_values=True)
    return dict(reversed(pairs))
