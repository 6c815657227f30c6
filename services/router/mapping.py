"""An event read through a mapping: whom it is for and with which parameters. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from shared.core.catalogue import EventMapping

_RECIPIENT: Final = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_BUSINESS_KEY_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Mapped:
    """What the event asks for. Parameters the event does not have are left out: the template says if it needs them."""

    recipient: str
    params: Mapping[str, Any] = field(repr=False)
    business_key: str | None = None


@dataclass(frozen=True, slots=True)
class Unmappable:
    """Why not; fit for a dead letter: it names expressions, never values."""

    reason: str
    detail: str


def apply(mapping: EventMapping, body: Mapping[str, Any]) -> Mapped | Unmappable:
    """Read one event through one mapping; expressions are JMESPath over the whole event."""
    try:
        recipient = _search(mapping.recipient, body)
        params = {name: value for name, path in mapping.params.items() if (value := _search(path, body)) is not None}
        business_key = None if mapping.business_key is None else _search(mapping.business_key, body)
    except JMESPathError as error:
        return Unmappable("mapping_failed", f"mapping {mapping.name}: {type(error).__name__} in an expression")
    if isinstance(recipient, int) and not isinstance(recipient, bool):
        recipient = str(recipient)
    if not isinstance(recipient, str) or not _RECIPIENT.fullmatch(recipient):
        return Unmappable(
            "no_recipient",
            f"mapping {mapping.name}: `{mapping.recipient}` finds no user id of 1 to 128 characters in the event",
        )
    return Mapped(recipient, params, None if business_key is None else str(business_key)[:_BUSINESS_KEY_CHARS])


def _search(expression: str, body: Mapping[str, Any]) -> Any:
    return _compiled(expression).search(body)


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> ParsedResult:
    return jmespath.compile(expression)
