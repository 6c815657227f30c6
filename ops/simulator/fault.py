"""Programmed faults: what is to go wrong, for which calls, how often. Pure, except for the counters of the table.

A fault is programmed by `POST /_sim/faults` in the JSON form of `FaultForm`; `applies` decides on one call;
`FaultTable.take` picks the fault of a call and counts it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

MAX_DELAY_MS: Final = 24 * 3600 * 1000
"""One day: long enough for "never answers", short enough for the event loop's clock."""


class Drop(StrEnum):
    """Where the connection is cut."""

    BEFORE_READ = "beforeRead"
    """Nothing is processed and nothing is answered: the provider never saw the call."""
    AFTER_ACCEPT = "afterAccept"
    """Processed like any other, but the connection is cut before the first byte of the reply."""
    MID_REPLY = "midReply"
    """Processed like any other; part of the reply is sent, then the connection is cut."""


class SmtpPhase(StrEnum):
    """The replies of an SMTP dialogue (RFC 5321 section 4.2) that a fault can stand in for."""

    GREETING = "greeting"
    EHLO = "ehlo"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    DATA_END = "dataEnd"


class _Form(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class Match(_Form):
    """Which calls are meant: all given fields must agree; a trailing `*` matches any rest."""

    to: str | None = None
    reference: str | None = None


class SmtpFault(_Form):
    """An SMTP reply at one phase. Without a code the phase answers as usual, after the delay or up to the drop."""

    phase: SmtpPhase = SmtpPhase.DATA_END
    code: Annotated[int, Field(ge=400, le=599)] | None = None
    text: Annotated[str, StringConstraints(pattern=r"^[^\r\n]*$", max_length=480)] | None = None


class GoAway(_Form):
    """An HTTP/2 GOAWAY frame (RFC 9113 section 6.8).

    Streams above `last_stream_id` are not processed, those up to it are answered, then the connection is closed.
    Without it, the call's own stream is the last one if `processed`, else the one before it.
    """

    last_stream_id: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    processed: bool = True
    error_code: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    debug_data: str = ""

    def last_for(self, stream_id: int) -> int:
        """The last stream id to announce when the fault falls on `stream_id`."""
        if self.last_stream_id is not None:
            return self.last_stream_id
        return stream_id if self.processed else max(stream_id - 2, 0)


class Http2Fault(_Form):
    """Faults below HTTP: a GOAWAY, a reset of the stream (error code), a new SETTINGS_MAX_CONCURRENT_STREAMS."""

    goaway: GoAway | None = None
    reset_stream: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    max_concurrent_streams: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None


class ReceiptFault(_Form):
    """How the receipts of an accepted message end (Twilio: `undelivered` with 30003 and so on)."""

    status: str
    error_code: int | None = None


_HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
_HeaderValue = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]*$")]


class Action(_Form):
    """What goes wrong. Parts add up: a delay and a status is a late refusal."""

    status: Annotated[int, Field(ge=200, le=599)] | None = None
    body: str | dict[str, object] | None = None
    headers: dict[_HeaderName, _HeaderValue] = {}
    delay_ms: Annotated[int, Field(ge=0, le=MAX_DELAY_MS)] = 0
    drop: Drop | None = None
    smtp: SmtpFault | None = None
    http2: Http2Fault | None = None
    receipt: ReceiptFault | None = None

    @property
    def smtp_phase(self) -> SmtpPhase:
        """The phase at which an SMTP fault acts; the final reply unless one is named."""
        return self.smtp.phase if self.smtp is not None else SmtpPhase.DATA_END


_KNOWN_AT: Final = {
    "to": {SmtpPhase.RCPT, SmtpPhase.DATA, SmtpPhase.DATA_END},
    "reference": {SmtpPhase.DATA_END},
}
"""From which SMTP phase on a call's field is known, so that a match on it can ever hit."""

HTTP2_PROVIDERS: Final = frozenset({"apns", "fcm"})
RECEIPT_PROVIDERS: Final = frozenset({"twilio"})


class FaultForm(_Form):
    """The body of `POST /_sim/faults`. `times` absent: until it is deleted. `probability` absent: always."""

    provider: str
    match: Match = Match()
    action: Action
    times: Annotated[int, Field(ge=1)] | None = None
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0

    @model_validator(mode="after")
    def _refuse_what_cannot_happen(self) -> Self:
        action = self.action
        if self.provider == "smtp":
            self._refuse_impossible_smtp(action)
        elif action.smtp is not None:
            raise ValueError(f"action.smtp needs provider smtp, not {self.provider}: use action.status and action.body")
        if action.http2 is not None and self.provider not in HTTP2_PROVIDERS:
            raise ValueError(f"action.http2 needs one of {sorted(HTTP2_PROVIDERS)}, not {self.provider}")
        if action.receipt is not None and self.provider not in RECEIPT_PROVIDERS:
            raise ValueError(f"action.receipt needs one of {sorted(RECEIPT_PROVIDERS)}, not {self.provider}")
        return self

    def _refuse_impossible_smtp(self, action: Action) -> None:
        if action.status is not None or action.body is not None or action.headers:
            raise ValueError("smtp has no action.status, body or headers: use action.smtp {phase, code, text}")
        for name in ("to", "reference"):
            if getattr(self.match, name) is not None and action.smtp_phase not in _KNOWN_AT[name]:
                raise ValueError(
                    f"match.{name} is not known yet at the phase {action.smtp_phase}: "
                    f"use one of {sorted(_KNOWN_AT[name])}, or no match.{name}"
                )


@dataclass(frozen=True, slots=True)
class Call:
    """What a fault is matched against: all recipients of the call, and for SMTP the phase reached."""

    provider: str
    to: Sequence[str] = ()
    reference: str | None = None
    phase: SmtpPhase | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    id: str
    form: FaultForm

    @property
    def action(self) -> Action:
        return self.form.action


def _agrees(pattern: str, value: str) -> bool:
    if pattern.endswith("*"):
        return value.startswith(pattern[:-1])
    return value == pattern


def applies(form: FaultForm, call: Call) -> bool:
    """Whether the fault is meant for this call; `times` and `probability` are the table's business."""
    if form.provider != call.provider:
        return False
    if call.phase is not None and form.action.smtp_phase is not call.phase:
        return False
    if form.match.to is not None and not any(_agrees(form.match.to, to) for to in call.to):
        return False
    return form.match.reference is None or (
        call.reference is not None and _agrees(form.match.reference, call.reference)
    )


@dataclass(slots=True)
class _Slot:
    fault: Fault
    remaining: int | None
    hits: int = 0


@dataclass(slots=True)
class FaultTable:
    """The programmed faults, oldest first. One call takes at most one fault: the first that applies and draws."""

    random: Random
    _slots: dict[str, _Slot] = field(default_factory=dict)
    _next: int = 1

    def add(self, form: FaultForm) -> Fault:
        fault = Fault(f"fault-{self._next}", form)
        self._next += 1
        self._slots[fault.id] = _Slot(fault, form.times)
        return fault

    def remove(self, fault_id: str) -> bool:
        """False if there is no such fault (any more)."""
        return self._slots.pop(fault_id, None) is not None

    def clear(self) -> None:
        self._slots.clear()

    def take(self, call: Call) -> Fault | None:
        """The fault of this call, counted; one whose `times` are used up is gone afterwards."""
        for slot in self._slots.values():
            if not applies(slot.fault.form, call) or self.random.random() >= slot.fault.form.probability:
                continue
            slot.hits += 1
            if slot.remaining is not None:
                slot.remaining -= 1
                if slot.remaining == 0:
                    del self._slots[slot.fault.id]
            return slot.fault
        return None

    def listing(self) -> list[dict[str, object]]:
        """As JSON values: the form, its id, how often it hit and how often it still may."""
        return [
            {
                "id": slot.fault.id,
                **slot.fault.form.model_dump(mode="json", by_alias=True, exclude_none=True),
                "hits": slot.hits,
                "remaining": slot.remaining,
            }
            for slot in self._slots.values()
        ]
