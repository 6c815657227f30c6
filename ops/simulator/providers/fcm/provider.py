"""FCM: `POST /v1/projects/{project}/messages:send` over HTTP/2."""

import re
import secrets
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Final

import orjson

from ops.simulator.exchange import Answer, Reply, Request, json_reply
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.providers.fcm.failure import INTERNAL, USUAL, Failure, malformed, permission_denied
from ops.simulator.providers.fcm.oauth import AccessTokens
from ops.simulator.providers.fcm.reference import reference
from ops.simulator.providers.fcm.rule import payload_bytes, refusal, snake_cased

_PATH: Final = re.compile(r"^/v1/projects/([^/]+)/messages:send$")


@dataclass(frozen=True, slots=True)
class Fcm:
    """Order of checks: path, access token, project, schema and limits, then tokens with a programmed prefix."""

    tokens: AccessTokens
    project: str

    name: ClassVar[str] = "fcm"
    ledgered: ClassVar[bool] = True

    def read(self, request: Request) -> Arrival:
        value = _body(request)
        message = value.get("message") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(message, dict):
            text = request.body.decode("utf-8", errors="replace")
            return Arrival(None, None, {"message": None, "body": text, "bytes": len(request.body)})
        target = next((message[name] for name in ("token", "topic", "condition") if message.get(name)), None)
        content = {
            "message": message,
            "validateOnly": value.get("validate_only") is True,
            "bytes": payload_bytes(message),
        }
        return Arrival(None if target is None else str(target), reference(message), content)

    def answer(self, request: Request, arrival: Arrival, now: datetime, _action: Action | None) -> Answer:
        failure = self._failure(request, now)
        if failure is not None:
            return Answer(failure.reply(), error=failure.name)
        message_id = "fake_message_id" if arrival.content["validateOnly"] else _message_id(now)
        name = f"projects/{self.project}/messages/{message_id}"
        return Answer(json_reply(200, {"name": name}), provider_message_id=name)

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        return USUAL.get(status, replace(INTERNAL, http_status=status)).reply()

    def _failure(self, request: Request, now: datetime) -> Failure | None:
        path = _PATH.match(request.path)
        if path is None or request.method != "POST":
            return Failure(404, "NOT_FOUND", "Requested entity was not found.")
        unauthenticated = self.tokens.failure(request.header("authorization"), now)
        if unauthenticated is not None:
            return unauthenticated
        if path[1] != self.project:
            return permission_denied(path[1])
        value = _body(request)
        if value is None:
            return malformed("Invalid JSON payload received. Unexpected token.", "")
        return refusal(value)


def _body(request: Request) -> object:
    try:
        return snake_cased(orjson.loads(request.body))
    except orjson.JSONDecodeError:
        return None


def _message_id(now: datetime) -> str:
    """In FCM's form: `0:<microseconds>%<hex>`."""
    return f"0:{int(now.timestamp() * 1_000_000)}%{secrets.token_hex(8)}"
