"""What an outbox row says about its event, beside the event's data."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import orjson

from shared.core.sealing import KeyRing, Purpose, SealError, open_sealed

_ATTRIBUTES: Final = ("id", "source", "type", "time")
_BINARY: Final = "ce_"
"""How headers begin that hold the attributes where the payload is the data alone (CloudEvents, Kafka binding 3.2)."""


def payload_of(id_: UUID, payload: bytes, ring: KeyRing | None, *, sealed: bool) -> bytes | None:
    """The payload in the clear; None if this ring does not open it. id_: the row's."""
    if not sealed:
        return payload
    if ring is None:
        return None
    try:
        return open_sealed(ring, Purpose.OUTBOX, id_.bytes, payload)
    except SealError:
        return None


def attributes(headers: Mapping[str, str], payload: bytes | None) -> dict[str, str]:
    """The event's id, source, type and time, as far as they are told; nothing for what is no CloudEvent."""
    named = {name: headers[f"{_BINARY}{name}"] for name in _ATTRIBUTES if f"{_BINARY}{name}" in headers}
    if named or payload is None:
        return named
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(event, dict):
        return {}
    return {name: event[name] for name in _ATTRIBUTES if isinstance(event.get(name), str)}
