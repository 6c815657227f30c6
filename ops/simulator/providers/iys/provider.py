"""İYS's REST API: `/oauth2/token` and `/sps/{iysCode}/brands/{brandCode}/consents...`, and a way to add changes.

Source: dev.iys.org.tr, "Kimlik Yönetimi" (Jeton Alma, Jeton Yenileme) and "İzin Yönetimi" (Tekil İzin Ekleme, Asenkron
Çoklu İzin Ekleme, Çoklu İzin Ekleme İsteği Sorgulama, Tekil İzin Durumu Sorgulama, İzin Hareketi Sorgulama).
"""

import hmac
import re
import secrets
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

import orjson

from ops.simulator.exchange import Answer, Reply, Request, json_reply
from ops.simulator.fault import Action
from ops.simulator.ledger import Arrival
from ops.simulator.providers.iys.registry import Registry, Written
from ops.simulator.providers.iys.rule import Problem

TOKEN_PATH: Final = "/oauth2/token"  # noqa: S105 - a path
PATH_PREFIX: Final = "/sps/"
CHANGES_PATH: Final = "/_sim/iys/changes"
TOKEN_LIFE_SEC: Final = 7200
"""'expires_in: 7200' in the documentation's example."""
MAX_LINES: Final = 10_000
PAGE: Final = 100
_CONSENTS: Final = re.compile(r"^/sps/([^/]+)/brands/([^/]+)/consents(/.*)?$")
_REQUEST: Final = re.compile(r"^/request/([^/]+)$")


@dataclass(slots=True)
class Account:
    """Who may call, for which brand; tokens live as long as the simulator or their two hours."""

    username: str
    password: str
    iys_code: str
    brand_code: str
    tokens: dict[str, float] = field(default_factory=dict)

    def issue(self, now: datetime) -> dict[str, object]:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.tokens[access] = now.timestamp() + TOKEN_LIFE_SEC
        return {
            "access_token": access,
            "refresh_token": refresh,
            "expires_in": TOKEN_LIFE_SEC,
            "refresh_expires_in": 2 * TOKEN_LIFE_SEC,
            "token_type": "bearer",
        }

    def admits(self, authorization: str | None, now: datetime) -> bool:
        scheme, _, token = (authorization or "").partition(" ")
        return scheme.lower() == "bearer" and self.tokens.get(token, 0.0) > now.timestamp()


@dataclass(frozen=True, slots=True)
class IysToken:
    """`POST /oauth2/token` with user name and password. Not a message: it can be faulted, but is not in the ledger."""

    account: Account

    name: ClassVar[str] = "iys-oauth"
    ledgered: ClassVar[bool] = False

    def read(self, _request: Request) -> Arrival:
        return Arrival(to=None, reference=None, content={})

    def answer(self, request: Request, _arrival: Arrival, now: datetime, _action: Action | None) -> Answer:
        form = _json(request)
        given = form if isinstance(form, dict) else {}
        same = hmac.compare_digest(
            f"{given.get('username')}:{given.get('password')}".encode(),
            f"{self.account.username}:{self.account.password}".encode(),
        )
        if given.get("grant_type") != "password" or not same:
            return Answer(self.refusal(401, request, now), error="invalid_grant")
        return Answer(json_reply(200, self.account.issue(now)))

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        return json_reply(status, {"error": "invalid_grant" if status < 500 else "server_error"})


@dataclass(frozen=True, slots=True)
class Iys:
    """Permissions of one brand."""

    account: Account
    registry: Registry

    name: ClassVar[str] = "iys"
    ledgered: ClassVar[bool] = True

    def read(self, request: Request) -> Arrival:
        form = _json(request)
        lines = form if isinstance(form, list) else [form]
        told = [str(line.get("recipient")) for line in lines if isinstance(line, dict) and line.get("recipient")]
        content = {"method": request.method, "path": request.path, "query": request.query, "body": form}
        return Arrival(to=told[0] if told else None, reference=None, content=content, recipients=tuple(told))

    def answer(  # noqa: PLR0911 - one return per call there is
        self, request: Request, _arrival: Arrival, now: datetime, _action: Action | None
    ) -> Answer:
        if not self.account.admits(request.header("authorization"), now):
            return Answer(self.refusal(401, request, now), error="401")
        path = _CONSENTS.match(request.path)
        if path is None or (path[1], path[2]) != (self.account.iys_code, self.account.brand_code):
            return Answer(self.refusal(403, request, now), error="403")
        rest = path[3] or ""
        asked = _REQUEST.match(rest)
        if request.method == "POST" and rest == "":
            return self._single(_json(request), now)
        if request.method == "POST" and rest == "/request":
            return self._many(_json(request))
        if request.method == "POST" and rest == "/status":
            return self._status(_json(request))
        if request.method == "GET" and asked is not None:
            results = self.registry.results(asked[1], now)
            return Answer(self.refusal(404, request, now), error="404") if results is None else _ok(results)
        if request.method == "GET" and rest == "/changes":
            query = dict(urllib.parse.parse_qsl(request.query))
            if query.get("source") != "IYS":
                return _ok({"after": query.get("after", "sim_0"), "list": []})
            return _ok(self.registry.changes_after(query.get("after"), PAGE))
        return Answer(self.refusal(404, request, now), error="404")

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        return json_reply(status, {"errors": [{"code": f"S{status}", "message": "İstek kabul edilmedi."}]})

    def _single(self, form: object, now: datetime) -> Answer:
        written = self.registry.write(form, now)
        if isinstance(written, Written):
            return Answer(json_reply(200, written.body()), provider_message_id=written.transaction_id)
        return _refused(written)

    def _many(self, forms: object) -> Answer:
        if not isinstance(forms, list) or not 1 <= len(forms) <= MAX_LINES:
            return _refused([Problem("consents", "S119", f"1-{MAX_LINES} izin gönderilmelidir.")])
        told = self.registry.enqueue(forms)
        return Answer(json_reply(200, told), provider_message_id=str(told["requestId"]))

    def _status(self, form: object) -> Answer:
        given = form if isinstance(form, dict) else {}
        recipient, kind, type_ = (str(given.get(name)) for name in ("recipient", "recipientType", "type"))
        known = self.registry.known.get((recipient, kind, type_))
        if known is None:
            return Answer(json_reply(404, {"errors": [{"code": "S404", "message": "İzin bulunamadı."}]}), error="404")
        return _ok(known.body())


@dataclass(frozen=True, slots=True)
class IysChanges:
    """`POST /_sim/iys/changes`: a citizen changes a permission by the registry's own ways."""

    registry: Registry

    name: ClassVar[str] = "iys-changes"
    ledgered: ClassVar[bool] = False

    def read(self, _request: Request) -> Arrival:
        return Arrival(to=None, reference=None, content={})

    def answer(self, request: Request, _arrival: Arrival, now: datetime, _action: Action | None) -> Answer:
        problems = self.registry.tell(_json(request), now)
        return _refused(problems) if problems else Answer(json_reply(201, {"changes": len(self.registry.changes)}))

    def refusal(self, status: int, _request: Request, _now: datetime) -> Reply:
        return json_reply(status, {})


def _json(request: Request) -> object:
    try:
        return orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return None


def _ok(value: object) -> Answer:
    return Answer(json_reply(200, value))


def _refused(problems: Sequence[Problem]) -> Answer:
    return Answer(json_reply(422, {"errors": [problem.body() for problem in problems]}), error=problems[0].code)
