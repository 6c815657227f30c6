"""What a request must satisfy to be accepted: pure, one request in, one admission or one problem out.

The decision whether and where it goes out is the router's; here is only checked what the caller can still correct.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import orjson

from services.ingest import problem
from services.ingest.model import ClampedPriority, NotificationRequest
from shared.content.parameter import Declaration
from shared.core.address import EmailAddress, InvalidAddressError, parse_email, parse_phone
from shared.core.catalogue import Catalogue, NotificationType
from shared.core.unsubscribe import PARAMETER, RESERVED
from shared.core.zone import zone_names
from shared.web.problem import FieldError, Problem
from shared.wire.channel import Category, Channels, MessageClass

MAX_SEND_AHEAD: Final = timedelta(days=30)
"""api.md: `sendAt` at most 30 days."""
MAX_EVENT_AHEAD: Final = timedelta(hours=1)
"""An event that claims to come from further ahead has a wrong clock or zone, and would live too long."""
_MAX_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class Profile:
    """What the request itself says of its recipient, checked; None: not said."""

    email: EmailAddress | None = None
    phone: str | None = None
    locale: str | None = None
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may be stored, as of `at`. channels None: the type's own; send_at only where it lies ahead."""

    request: NotificationRequest
    type: NotificationType
    message_class: MessageClass
    clamped: ClampedPriority | None
    channels: tuple[str, ...] | None
    profile: Profile | None
    params: bytes
    at: datetime
    send_at: datetime | None
    expires_at: datetime


class Requirements:
    """What one catalogue wants of each type and choice of channels, worked out once and remembered.

    A service keeps one per catalogue it has read; requests ask for the same few types again and again.
    """

    def __init__(self, catalogue: Catalogue, channels: Channels) -> None:
        self.catalogue = catalogue
        self._channels = channels
        self._problems: dict[tuple[str, tuple[str, ...] | None], Problem | None] = {}
        self._parameters: dict[tuple[str, tuple[str, ...]], frozenset[str]] = {}
        self._declared: dict[str, Declaration] = {}

    def channel_problem(self, kind: NotificationType, asked: tuple[str, ...] | None) -> Problem | None:
        """What is wrong with the channels: unknown ones, or no template to fill in."""
        key = (kind.name, asked)
        if key not in self._problems:
            if len(self._problems) >= _MAX_REMEMBERED:
                self._problems.clear()
            self._problems[key] = _channel_problem(asked, kind, self.catalogue, self._channels)
        return self._problems[key]

    def params_problem(self, kind: NotificationType, params: Mapping[str, Any]) -> Problem | None:
        """What params hold that the type does not declare, or lack of what it does."""
        if kind.parameter_schema is None:
            return None
        declared = self._declared.get(kind.name)
        if declared is None:
            declared = self._declared[kind.name] = Declaration(kind.parameter_schema)
        found = tuple(FieldError(f"params{wrong.path}", wrong.message) for wrong in declared.problems(params))
        if not found:
            return None
        return problem.INVALID_PARAMETERS(
            f"{found[0].path}: {found[0].detail}. {kind.name} declares its parameters.", errors=found
        )

    def parameters(self, kind: NotificationType, channels: tuple[str, ...]) -> frozenset[str]:
        """Every name that a template of these channels uses in any locale."""
        key = (kind.name, channels)
        names = self._parameters.get(key)
        if names is None:
            if len(self._parameters) >= _MAX_REMEMBERED:
                self._parameters.clear()
            names = self._parameters[key] = frozenset(
                name
                for channel in channels
                for template in self.catalogue.templates(kind.name, channel)
                for name in template.parameters
            )
        return names


def admit(  # noqa: PLR0911  one return per thing that can be wrong reads better than a chain of wrappers
    request: NotificationRequest, requirements: Requirements, now: datetime
) -> Admitted | Problem:
    """Check all but the parameters (`missing_parameters`), cheapest first; the first thing wrong is the answer."""
    kind = requirements.catalogue.type(request.type)
    if kind is None:
        return problem.UNKNOWN_TYPE(
            f"There is no notification type {request.type!r}. Push it with `ulak templates push`, or correct the name.",
            "type",
        )
    asked = asked_class(request.priority)
    if isinstance(asked, Problem):
        return asked
    times = _times(request, kind, now)
    if isinstance(times, Problem):
        return times
    channels = None if request.channels is None else tuple(dict.fromkeys(request.channels))
    wrong = requirements.channel_problem(kind, channels)
    if wrong is not None:
        return wrong
    profile = _profile(request)
    if isinstance(profile, Problem):
        return profile
    if PARAMETER in request.params:
        return problem.INVALID_PARAMETERS(f"{RESERVED}.", f"params.{PARAMETER}")
    undeclared = requirements.params_problem(kind, request.params)
    if undeclared is not None:
        return undeclared
    try:
        params = orjson.dumps(request.params)
    except orjson.JSONEncodeError as error:
        return problem.INVALID_PARAMETERS(
            f"params cannot be stored ({error}). Send large numbers as strings.", "params"
        )
    send_at, expires_at = times
    return Admitted(
        request=request,
        type=kind,
        message_class=kind.message_class if asked is None else max(kind.message_class, asked),
        clamped=clamp(request.priority, asked, kind.message_class),
        channels=channels,
        profile=profile,
        params=params,
        at=now,
        send_at=send_at,
        expires_at=expires_at,
    )


def parameters_in_doubt(admitted: Admitted, requirements: Requirements) -> bool:
    """Whether some locale's template lacks a parameter; only then it matters which locale the recipient reads.

    Templates of one type usually use the same parameters in all locales, so a complete request costs no look-up.
    """
    params = admitted.request.params
    names = requirements.parameters(admitted.type, admitted.channels or admitted.type.default_channels)
    return any(params.get(name) is None for name in names)


def missing_parameters(
    admitted: Admitted, catalogue: Catalogue, *, locale: str | None, default_locale: str
) -> Problem | None:
    """The parameters that the templates of this recipient need and the request lacks (a null is as good as none).

    locale: the recipient's, given inline or known; None where neither is. All channels are looked at, so that the
    caller corrects the request once.
    """
    lacking: dict[str, None] = {}
    sentences: list[str] = []
    channels = admitted.channels or admitted.type.default_channels
    if not any(catalogue.template(admitted.type.name, channel, locale, default_locale) for channel in channels):
        tried = ", ".join(dict.fromkeys((locale, default_locale) if locale else (default_locale,)))
        return problem.TEMPLATE_MISSING(
            f"{admitted.type.name} has no template for {listed(tuple(channels))} in {tried}. "
            "Push one with `ulak templates push`, or send the recipient's locale."
        )
    for channel in channels:
        template = catalogue.template(admitted.type.name, channel, locale, default_locale)
        names = (
            ()
            if template is None
            else tuple(name for name in sorted(template.parameters) if admitted.request.params.get(name) is None)
        )
        if template is not None and names:
            lacking |= dict.fromkeys(names)
            sentences.append(f"{admitted.type.name} for {channel} in {template.locale} needs {listed(names)}.")
    if not lacking:
        return None
    return problem.PARAMETERS_MISSING(
        f"{' '.join(sentences)} Send them in params.", *(f"params.{name}" for name in lacking)
    )


@lru_cache(maxsize=64)
def asked_class(priority: str | None) -> MessageClass | Problem | None:
    """The class that a caller's `priority` names, by its own name or by a category's."""
    if priority is None:
        return None
    try:
        return MessageClass.from_label(priority) if priority.islower() else Category(priority).message_class
    except ValueError:
        return problem.UNKNOWN_PRIORITY(
            "The priority is none that Ulak knows. Use critical, tx, bulk, low, SECURITY, TRANSACTIONAL or MARKETING.",
            "priority",
        )


def clamp(priority: str | None, asked: MessageClass | None, allowed: MessageClass) -> ClampedPriority | None:
    """What the answer tells of a priority that asked for more than the type's class."""
    if priority is None or asked is None or asked >= allowed:
        return None
    return ClampedPriority.model_validate({"requested": priority, "applied": allowed.label})


def _times(
    request: NotificationRequest, kind: NotificationType, now: datetime
) -> tuple[datetime | None, datetime] | Problem:
    """`send_at` if it lies ahead, and `expires_at`: (sendAt, else event time, else now) + TTL, or earlier if asked."""
    send_at, event_time = request.send_at, request.event_time
    if send_at is not None and send_at > now + MAX_SEND_AHEAD:
        return problem.INVALID_TIME(f"sendAt lies more than {MAX_SEND_AHEAD.days} days ahead. Send it later.", "sendAt")
    if event_time is not None and event_time > now + MAX_EVENT_AHEAD:
        return problem.INVALID_TIME(
            "eventTime lies more than an hour ahead. Correct the clock or the offset; use sendAt to send later.",
            "eventTime",
        )
    # Far-off past times cannot overflow: a TTL is added, never taken away.
    expires_at = (send_at or event_time or now) + kind.ttl
    if request.expires_at is not None:
        if send_at is not None and request.expires_at <= send_at:
            return problem.INVALID_TIME("expiresAt is not after sendAt. It could never be sent.", "expiresAt", "sendAt")
        expires_at = min(expires_at, request.expires_at)
    if expires_at <= now:
        path = "expiresAt" if request.expires_at == expires_at else "sendAt" if send_at is not None else "eventTime"
        return problem.EXPIRED_ON_ARRIVAL(
            f"It expired at {expires_at.isoformat()}; {kind.name} lives for {int(kind.ttl.total_seconds())} s. "
            "Nothing is sent that late: correct the time, or do not send it.",
            path,
        )
    return (send_at if send_at is not None and send_at > now else None), expires_at


def _channel_problem(
    asked: Sequence[str] | None, kind: NotificationType, catalogue: Catalogue, channels: Channels
) -> Problem | None:
    if asked is None:
        if any(catalogue.templates(kind.name, channel) for channel in kind.default_channels):
            return None
        return problem.TEMPLATE_MISSING(
            f"{kind.name} has no template for {listed(kind.default_channels)}. Push one with `ulak templates push`.",
            "type",
        )
    unknown = [index for index, name in enumerate(asked) if name not in channels]
    if unknown:
        return problem.UNKNOWN_CHANNEL(
            f"Not a channel: use {listed(channels.names, 'or')}.", *(f"channels.{index}" for index in unknown)
        )
    bare = [index for index, name in enumerate(asked) if not catalogue.templates(kind.name, name)]
    if bare:
        return problem.TEMPLATE_MISSING(
            f"{kind.name} has no template for {listed([asked[index] for index in bare])}. "
            "Push one with `ulak templates push`, or leave the channel out.",
            *(f"channels.{index}" for index in bare),
        )
    return None


def _profile(request: NotificationRequest) -> Profile | Problem | None:
    given = request.recipient
    if given is None:
        return None
    email: EmailAddress | None = None
    phone: str | None = None
    try:
        email = None if given.email is None else parse_email(given.email)
    except InvalidAddressError as error:
        return problem.INVALID_ADDRESS(f"recipient.email is {error}.", "recipient.email")
    try:
        phone = None if given.phone is None else parse_phone(given.phone)
    except InvalidAddressError as error:
        return problem.INVALID_ADDRESS(f"recipient.phone is {error}.", "recipient.phone")
    if given.time_zone is not None and given.time_zone not in zone_names():
        return problem.INVALID_TIME_ZONE(
            "recipient.timeZone is not an IANA time zone: give a name like Europe/Istanbul, not an offset.",
            "recipient.timeZone",
        )
    if email is None and phone is None and given.locale is None and given.time_zone is None:
        return None
    return Profile(email, phone, given.locale, given.time_zone)


def listed(names: Iterable[str], word: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last
