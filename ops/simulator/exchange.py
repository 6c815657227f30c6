"""One HTTP call to a provider: read, apply the programmed fault, answer, record, reply.

A provider implements `HttpProvider`: how its calls are read, checked and answered. `Exchange` holds what all of
them share, so that faults and the ledger mean the same everywhere.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol

import orjson

from ops.simulator.fault import Action, Call, Drop, Fault, FaultTable, Http2Fault
from ops.simulator.ledger import Arrival, Ledger, Result

Clock = Callable[[], datetime]
JSON_TYPE: Final = ("content-type", "application/json")


class Connection:
    """One client connection; providers that remember something per connection key it by this object."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request, read completely.

    path and query are as sent (query without the question mark); header names are lower case, in order, repeats kept.
    """

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: Connection
    stream_id: int | None = None

    def header(self, name: str) -> str | None:
        """The first value of a header, by its lower-case name."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back. `drop` and `http2` are carried out by the server that holds the connection."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    drop: Drop | None = None
    http2: Http2Fault | None = None


def json_reply(status: int, value: object, *headers: tuple[str, str]) -> Reply:
    return Reply(status, (JSON_TYPE, *headers), orjson.dumps(value))


@dataclass(frozen=True, slots=True)
class Answer:
    """A provider's own verdict on a call; `error` is its name for the refusal."""

    reply: Reply
    provider_message_id: str | None = None
    error: str | None = None

    @property
    def accepted(self) -> bool:
        return self.error is None


class HttpProvider(Protocol):
    """What a provider's folder brings. All methods are synchronous and quick; none may raise on any input."""

    @property
    def name(self) -> str:
        """The provider's name in the ledger and in faults."""

    @property
    def ledgered(self) -> bool:
        """Whether its calls are messages; token fetches are not, though they can be faulted."""

    def read(self, request: Request, /) -> Arrival:
        """Recipient, reference and content as far as they can be told, also from a call that will be refused."""

    def answer(self, request: Request, arrival: Arrival, now: datetime, action: Action | None, /) -> Answer:
        """Check the call as the real provider does and process it; `action` may say how its receipts end."""

    def refusal(self, status: int, request: Request, now: datetime, /) -> Reply:
        """The provider's real reply for a programmed status that came without a body."""


class Handler(Protocol):
    """What a server calls with each request."""

    async def __call__(self, request: Request) -> Reply:
        """The reply; may take as long as a fault says. Cancelled when the client has gone."""

    def refuse(self, request: Request) -> None:
        """Take note that a request in progress is declared unprocessed (GOAWAY) and will get no reply."""


@dataclass(slots=True)
class Exchange:
    """The handler of one provider's requests.

    A delayed call is processed and recorded when it arrives and answered when the delay is over: that is how a slow
    provider looks, and a client that gave up meanwhile finds its message in the ledger.
    """

    provider: HttpProvider
    faults: FaultTable
    ledger: Ledger
    clock: Clock
    _waiting: dict[Request, int] = field(default_factory=dict)

    async def __call__(self, request: Request) -> Reply:
        now = self.clock()
        arrival = self.provider.read(request)
        fault = self.faults.take(Call(self.provider.name, arrival.all_recipients, arrival.reference))
        reply, result = self._process(request, arrival, fault, now)
        seq = self.ledger.add(self.provider.name, arrival, result, now) if self.provider.ledgered else 0
        if fault is not None and fault.action.delay_ms:
            self._waiting[request] = seq
            try:
                await asyncio.sleep(fault.action.delay_ms / 1000)
            finally:
                self._waiting.pop(request, None)
        return reply

    def refuse(self, request: Request) -> None:
        seq = self._waiting.pop(request, 0)
        if seq:
            self.ledger.withdraw(seq, "GOAWAY")

    def _process(self, request: Request, arrival: Arrival, fault: Fault | None, now: datetime) -> tuple[Reply, Result]:
        if fault is None:
            answer = self.provider.answer(request, arrival, now, None)
            return answer.reply, _result(answer, answer.reply.status, None)
        action = fault.action
        unprocessed = _unprocessed(action, request.stream_id)
        if unprocessed is not None:
            reply = Reply(503, drop=action.drop, http2=action.http2)
            return reply, Result(accepted=False, status=None, error=unprocessed, fault_id=fault.id)
        if action.status is not None and action.status >= 300:
            reply = _shaped(self.provider.refusal(action.status, request, now), action)
            status = None if action.drop is Drop.AFTER_ACCEPT else reply.status
            return reply, Result(accepted=False, status=status, error=f"status {action.status}", fault_id=fault.id)
        answer = self.provider.answer(request, arrival, now, action)
        reply = _shaped(answer.reply, action)
        return reply, _result(answer, None if action.drop is Drop.AFTER_ACCEPT else reply.status, fault.id)


def _unprocessed(action: Action, stream_id: int | None) -> str | None:
    """Why the call is not even looked at, or None."""
    if action.drop is Drop.BEFORE_READ:
        return "dropped"
    if action.http2 is not None and stream_id is not None:
        if action.http2.reset_stream is not None:
            return "RST_STREAM"
        if action.http2.goaway is not None and action.http2.goaway.last_for(stream_id) < stream_id:
            return "GOAWAY"
    return None


def _result(answer: Answer, status: int | None, fault_id: str | None) -> Result:
    return Result(
        accepted=answer.accepted,
        status=status,
        provider_message_id=answer.provider_message_id,
        error=answer.error,
        fault_id=fault_id,
    )


def _shaped(reply: Reply, action: Action) -> Reply:
    """The reply with what the fault replaces: status, body, headers, and what becomes of the connection."""
    headers: Mapping[str, str] = {
        **dict(reply.headers),
        **{name.lower(): text for name, text in action.headers.items()},
    }
    body = reply.body
    if isinstance(action.body, str):
        body = action.body.encode()
    elif action.body is not None:
        body = orjson.dumps(action.body)
        headers = dict([JSON_TYPE]) | dict(headers)
    status = reply.status if action.status is None else action.status
    return replace(
        reply, status=status, headers=tuple(headers.items()), body=body, drop=action.drop, http2=action.http2
    )
