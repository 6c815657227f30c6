"""A template's options: what the channel does with its words, beside the words."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from shared.content.problem import TemplateProblem

_ALPHANUMERIC_SENDER: Final = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9 ]{1,11}")
"""GSM 03.40: 11 characters; all digits would be a number (Twilio, Alphanumeric Sender ID)."""
_NUMBER_SENDER: Final = re.compile(r"\+[1-9][0-9]{6,14}|[0-9]{3,6}")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAX_BADGE: Final = 99_999
_MAX_TTL_SEC: Final = 2_419_200
"""Four weeks: as long as Google keeps a push; Apple keeps it for 30 days."""

Check = Callable[[Any], str | None]
"""What is wrong with a value, or None."""


def _sound(value: Any) -> str | None:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return None
    return "the name of a sound of the app, `default`, or `none`"


def _badge(value: Any) -> str | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return None if whole and 0 <= value <= _MAX_BADGE else f"a whole number from 0 to {_MAX_BADGE}"


def _ttl(value: Any) -> str | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return None if whole and 0 <= value <= _MAX_TTL_SEC else f"whole seconds from 0 to {_MAX_TTL_SEC}"


def _name(value: Any) -> str | None:
    return None if isinstance(value, str) and _NAME.fullmatch(value) else "up to 64 letters, digits, `.`, `_`, `-`"


def _sender_id(value: Any) -> str | None:
    if isinstance(value, str) and (_ALPHANUMERIC_SENDER.fullmatch(value) or _NUMBER_SENDER.fullmatch(value)):
        return None
    return "up to 11 letters and digits with a letter among them, a short code, or a number in E.164"


def _switch(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


TRANSLITERATE: Final = "transliterate"

OPTIONS: Final[Mapping[str, Mapping[str, Check]]] = {
    "PUSH": {"sound": _sound, "badge": _badge, "threadId": _name, "ttl": _ttl},
    "SMS": {"senderId": _sender_id, TRANSLITERATE: _switch},
}
"""By channel: the options there are. A channel that is not named has none."""

SENT_OPTIONS: Final = frozenset({"sound", "badge", "threadId", "ttl", "senderId"})
"""Those that a provider is told: they travel with the content. `transliterate` has done its work by then."""


def option_problems(channel: str, options: Mapping[str, Any]) -> Iterator[TemplateProblem]:
    known = OPTIONS.get(channel, {})
    for name, value in options.items():
        check = known.get(name)
        if check is None:
            there = f"use {', '.join(known)}" if known else f"{channel} has none"
            yield TemplateProblem(f"options.{name}", f"there is no such option: {there}")
        elif (wrong := check(value)) is not None:
            yield TemplateProblem(f"options.{name}", f"give {wrong}")
