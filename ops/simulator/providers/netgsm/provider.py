"""Netgsm's REST API v2: `POST /sms/rest/v2/send` with basic authentication."""

import base64
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final

import orjson

from ops.simulator.exchange import Answer, Reply, Request, json_reply
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.providers.netgsm.reference import reference
from ops.simulator.providers.netgsm.rule import CREDENTIALS, SYSTEM, Refusal, first_message, refusal
from ops.simulator.providers.netgsm.segment import parts

PATH: Final = "/sms/rest/v2/send"


@dataclass(frozen=True, slots=True)
class Netgsm:
    """Order of checks: credentials, then the request. One message a request."""

    usercode: str
    password: str
    msgheader: str

    name: ClassVar[str] = "netgsm"
    ledgered: ClassVar[bool] = True

    def read(self, request: Request) -> Arrival:
        body = _body(request)
        message = first_message(body)
        number = message.get("no")
        content = {
            "from": body.get("msgheader"),
            "body": message.get("msg"),
            "encoding": body.get("encoding"),
            "iysfilter": body.get("iysfilter"),
            "numSegments": _parts(body),
        }
        return Arrival(f"+90{number}" if isinstance(number, str) else None, reference(body), content)

    def answer(self, request: Request, _arrival: Arrival, _now: datetime, _action: Action | None) -> Answer:
        body = _body(request)
        refused = None if self._admits(request.header("authorization")) else CREDENTIALS
        refused = refused or refusal(body, self.msgheader, _parts(body))
        if refused is not None:
            return Answer(refused.reply(), error=refused.code)
        job_id = f"{secrets.randbelow(10**17):017}"
        return Answer(json_reply(200, {"code": "00", "jobid": job_id, "description": "queued"}), job_id)

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        if status >= 500:
            return Refusal(SYSTEM.code, SYSTEM.description, status).reply()
        return Refusal("80" if status == 429 else "70", "", status).reply()

    def _admits(self, authorization: str | None) -> bool:
        expected = base64.b64encode(f"{self.usercode}:{self.password}".encode()).decode()
        return hmac.compare_digest((authorization or "").encode(), f"Basic {expected}".encode())


def _parts(body: Mapping[str, Any]) -> int | None:
    text = first_message(body).get("msg")
    return parts(text, str(body.get("encoding", ""))) if isinstance(text, str) else None


def _body(request: Request) -> Mapping[str, Any]:
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
