"""The control API: what arrived, what is to fail, which receipts to send. `/_sim/...`, `/healthz`, `/readyz`."""

import re
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from ops.simulator.exchange import Reply, Request, json_reply
from ops.simulator.fault import FaultForm, FaultTable
from ops.simulator.ledger import Ledger, Query
from ops.simulator.problem import invalid, problem
from ops.simulator.receipt import NoReceiptError, ReceiptPolicy, ReceiptSender

MAX_PAGE: Final = 1000

_INSTANT: Final = TypeAdapter(AwareDatetime)


class MessageQuery(BaseModel):
    """The query of `GET /_sim/messages`. `since` is a sequence number or a time; `cursor` is the page before's."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    provider: str | None = None
    to: str | None = None
    reference: str | None = None
    accepted: bool | None = None
    since: int | datetime | None = None
    cursor: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100

    @field_validator("since", mode="before")
    @classmethod
    def _number_or_time(cls, since: object) -> object:
        if isinstance(since, str) and since.isascii() and since.isdigit():
            return int(since)
        try:
            return _INSTANT.validate_python(since)
        except ValidationError as error:
            raise ValueError("give a sequence number, or an RFC 3339 time with offset (+ is %2B in a query)") from error

    def query(self) -> Query:
        after = self.since if isinstance(self.since, int) else 0
        return Query(
            provider=self.provider,
            to=self.to,
            reference=self.reference,
            accepted=self.accepted,
            received_from=self.since if isinstance(self.since, datetime) else None,
            after_seq=max(after, self.cursor),
            limit=self.limit,
        )


class ReceiptForm(BaseModel):
    """The body of `POST /_sim/callbacks/{reference}`; `provider` only if several send receipts."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    status: str
    error_code: int | None = None
    provider: str = "twilio"


_Route = Callable[[Request, Mapping[str, str]], Awaitable[Reply]]


@dataclass(slots=True)
class Control:
    """Handles the control requests. `endpoints` is empty until all servers listen, and `/readyz` says so."""

    ledger: Ledger
    faults: FaultTable
    receipts: Mapping[str, ReceiptSender]
    fault_targets: frozenset[str]
    endpoints: dict[str, object] = field(default_factory=dict)

    async def __call__(self, request: Request) -> Reply:
        allowed: list[str] = []
        for method, pattern, route in self._routes():
            match = pattern.match(request.path)
            if match is None:
                continue
            if method != request.method:
                allowed.append(method)
                continue
            try:
                return await route(request, match.groupdict())
            except ValidationError as error:
                return invalid(error)
        if allowed:
            refused = problem(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", f"Use {' or '.join(allowed)}.")
            return Reply(refused.status, (*refused.headers, ("allow", ", ".join(allowed))), refused.body)
        return problem(
            HTTPStatus.NOT_FOUND,
            "not_found",
            "There is messages, stats, faults, callbacks/{reference}, receipts and endpoints under /_sim/.",
        )

    def refuse(self, request: Request) -> None:
        """HTTP/1.1 has no GOAWAY, so nothing is ever declared unprocessed."""

    def _routes(self) -> list[tuple[str, re.Pattern[str], _Route]]:
        return [(method, pattern, getattr(self, name)) for method, pattern, name in _ROUTES]

    async def _health(self, _request: Request, _path: Mapping[str, str]) -> Reply:
        return json_reply(200, {"status": "ok"})

    async def _ready(self, _request: Request, _path: Mapping[str, str]) -> Reply:
        return json_reply(200 if self.endpoints else 503, {"status": "ok" if self.endpoints else "starting"})

    async def _endpoints(self, _request: Request, _path: Mapping[str, str]) -> Reply:
        return json_reply(200, self.endpoints)

    async def _messages(self, request: Request, _path: Mapping[str, str]) -> Reply:
        pairs = urllib.parse.parse_qsl(request.query, keep_blank_values=True)
        entries, more = self.ledger.select(MessageQuery.model_validate(dict(pairs)).query())
        references = {entry.reference for entry in entries if entry.reference is not None}
        counts = {}
        for reference in sorted(references):
            tally = self.ledger.tally(reference)
            counts[reference] = {"calls": tally.calls, "accepted": tally.accepted}
        value = {
            "messages": [entry.as_json() for entry in entries],
            "cursor": str(entries[-1].seq) if more else None,
            "counts": counts,
        }
        return json_reply(200, value)

    async def _stats(self, _request: Request, _path: Mapping[str, str]) -> Reply:
        receipts = {name: sender.counts() for name, sender in self.receipts.items()}
        return json_reply(200, {**self.ledger.stats(), "receipts": receipts})

    async def _forget(self, _request: Request, _path: Mapping[str, str]) -> Reply:
        self.ledger.clear()
        self.faults.clear()
        for sender in self.receipts.values():
            sender.clear()
        return Reply(HTTPStatus.NO_CONTENT)

    async def _add_fault(self, request: Request, _path: Mapping[str, str]) -> Reply:
        form = FaultForm.model_validate_json(request.body or b"{}")
        if form.provider not in self.fault_targets:
            known = ", ".join(sorted(self.fault_targets))
            return problem(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "unknown_provider",
                f"provider: must be one of {known}.",
                [{"path": "provider", "detail": f"must be one of {known}"}],
            )
        return json_reply(HTTPStatus.CREATED, {"id": self.faults.add(form).id})

    async def _list_faults(self, _request: Request, _path: Mapping[str, str]) -> Reply:
        return json_reply(200, {"faults": self.faults.listing()})

    async def _clear_faults(self, _request: Request, _path: Mapping[str, str]) -> Reply:
        self.faults.clear()
        return Reply(HTTPStatus.NO_CONTENT)

    async def _remove_fault(self, _request: Request, path: Mapping[str, str]) -> Reply:
        if self.faults.remove(path["id"]):
            return Reply(HTTPStatus.NO_CONTENT)
        return problem(
            HTTPStatus.NOT_FOUND, "no_such_fault", "It is used up, deleted, or never was: see GET /_sim/faults."
        )

    async def _set_receipts(self, request: Request, _path: Mapping[str, str]) -> Reply:
        policy = ReceiptPolicy.model_validate_json(request.body or b"{}")
        for sender in self.receipts.values():
            sender.policy = policy
        return json_reply(200, policy.model_dump(mode="json", by_alias=True))

    async def _send_receipt(self, request: Request, path: Mapping[str, str]) -> Reply:
        form = ReceiptForm.model_validate_json(request.body or b"{}")
        sender = self.receipts.get(form.provider)
        if sender is None:
            known = ", ".join(sorted(self.receipts))
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "no_receipts", f"provider: only {known} send receipts.")
        try:
            answered = await sender.send_now(urllib.parse.unquote(path["reference"]), form.status, form.error_code)
        except NoReceiptError as error:
            return problem(HTTPStatus.NOT_FOUND, "no_receipt", str(error))
        return json_reply(200, {"receiverStatus": answered})


_ROUTES: Final = [
    (method, re.compile(f"^{pattern}$"), name)
    for method, pattern, name in (
        ("GET", "/healthz", "_health"),
        ("GET", "/readyz", "_ready"),
        ("GET", "/_sim/endpoints", "_endpoints"),
        ("GET", "/_sim/messages", "_messages"),
        ("GET", "/_sim/stats", "_stats"),
        ("DELETE", "/_sim/?", "_forget"),
        ("POST", "/_sim/faults", "_add_fault"),
        ("GET", "/_sim/faults", "_list_faults"),
        ("DELETE", "/_sim/faults", "_clear_faults"),
        ("DELETE", "/_sim/faults/(?P<id>[^/]+)", "_remove_fault"),
        ("PUT", "/_sim/receipts", "_set_receipts"),
        ("POST", "/_sim/callbacks/(?P<reference>[^/]+)", "_send_receipt"),
    )
]
