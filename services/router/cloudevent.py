"""CloudEvents 1.0 as Kafka carries them (Kafka protocol binding 1.0.2): structured and binary mode. Pure."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from shared.wire.message import HEADER_TRACEPARENT, MalformedMessageError

MAX_ID_CHARS: Final = 200
"""Width of `notification_dedup.key`."""
_STRUCTURED: Final = "application/cloudevents"
_BATCHED: Final = "application/cloudevents-batch"
_PREFIX: Final = "ce_"


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """One event. body is the whole of it as structured JSON, extensions included, whatever mode it came in:
    mappings read that. time is None where the producer did not say.
    """

    id: str
    source: str
    type: str
    time: datetime | None
    body: Mapping[str, Any] = field(repr=False)
    traceparent: str | None = None


def read_event(value: bytes | None, headers: Mapping[str, bytes]) -> CloudEvent:
    """Read one message of `domain-events`; MalformedMessageError says what is wrong without quoting content.

    A value without CloudEvents headers or content type is read as structured JSON: what plain SQL enqueues has none.
    """
    if value is None:
        raise MalformedMessageError("the value is null: an event needs one, `domain-events` knows no tombstones")
    lower = {name.lower(): content for name, content in headers.items()}
    content_type = _text(lower.get("content-type", b"")).strip().lower()
    if content_type.startswith(_BATCHED):
        raise MalformedMessageError("batched CloudEvents are not taken: send one event a message")
    if not content_type.startswith(_STRUCTURED) and f"{_PREFIX}specversion" in lower:
        body = _binary(value, lower, content_type)
    else:
        body = _structured(value)
    return _event(body, lower)


def _structured(value: bytes) -> dict[str, Any]:
    body = _json(value, "the value")
    if not isinstance(body, dict):
        raise MalformedMessageError("the value is not a JSON object")
    if "data_base64" in body and "data" not in body:
        try:
            data = base64.b64decode(body["data_base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise MalformedMessageError("`data_base64` is not base64") from None
        body = {name: content for name, content in body.items() if name != "data_base64"}
        body["data"] = _json(data, "`data_base64`")
    return body


def _binary(value: bytes, headers: Mapping[str, bytes], content_type: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        name.removeprefix(_PREFIX): _text(content) for name, content in headers.items() if name.startswith(_PREFIX)
    }
    if content_type:
        body["datacontenttype"] = content_type
    body["data"] = _json(value, "the data") if value else None
    return body


def _event(body: dict[str, Any], headers: Mapping[str, bytes]) -> CloudEvent:
    version = body.get("specversion")
    if version != "1.0":
        raise MalformedMessageError('not a CloudEvent: `specversion` is not "1.0"')
    event_id, source, event_type = (_required(body, name) for name in ("id", "source", "type"))
    if len(event_id) > MAX_ID_CHARS:
        raise MalformedMessageError(f"`id` is longer than {MAX_ID_CHARS} characters")
    traceparent = body.get(HEADER_TRACEPARENT) or _text(headers.get(HEADER_TRACEPARENT, b""))
    return CloudEvent(
        id=event_id,
        source=source,
        type=event_type,
        time=_time(body.get("time")),
        body=body,
        traceparent=traceparent[:64] if isinstance(traceparent, str) and traceparent else None,
    )


def _required(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedMessageError(f"not a CloudEvent: `{name}` is missing or not a text")
    if "\x00" in value:
        raise MalformedMessageError(f"`{name}` holds a NUL character")
    return value


def _time(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise MalformedMessageError("`time` is not an RFC 3339 time") from None
    if moment.tzinfo is None:
        raise MalformedMessageError("`time` has no offset")
    return moment.astimezone(UTC)


def _json(value: bytes, what: str) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise MalformedMessageError(f"{what} is not JSON: {error.msg} at position {error.pos}") from None


def _text(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")
