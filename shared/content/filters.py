"""Filters that know a language: money, numbers, dates, times, plural forms (Babel, CLDR).

Each takes what JSON can hold and gives text; a value that does not fit is a ValueError, which the part that uses it
reports without the value. Locale and zone are the rendering's, not the author's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_time, get_datetime_format
from babel.numbers import format_currency, format_decimal, format_percent
from jinja2 import pass_context
from jinja2.runtime import Context

SETTING: Final = "_setting"
"""Name under which a rendering's locale and zone stand in its context; authors' names never begin so."""
_STYLES: Final = frozenset({"short", "medium", "long", "full"})
_MAX_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Setting:
    """How a rendering speaks: the template's locale (BCP 47), and the zone of the recipient or the default one."""

    locale: str
    zone: ZoneInfo

    @property
    def babel(self) -> Locale:
        return _locale(self.locale)


@lru_cache(maxsize=256)
def _locale(tag: str) -> Locale:
    """CLDR's data of a tag, or of the longest beginning of it that there is; English for none."""
    parts = tag.replace("_", "-").split("-")
    for length in range(len(parts), 0, -1):
        try:
            return Locale.parse("-".join(parts[:length]), sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return Locale("en")


@pass_context
def money(context: Context, amount: Any, currency: str) -> str:
    """`{{ total|money("TRY") }}`: an amount, a number or better a string like "1499.90", in a currency (ISO 4217)."""
    if len(currency) != 3 or not (currency.isascii() and currency.isupper()):
        raise ValueError("a currency is three letters, like TRY")
    return format_currency(_decimal(amount), currency, locale=_setting(context).babel)


@pass_context
def number(context: Context, value: Any, decimals: int | None = None) -> str:
    """`{{ points|number }}`: grouped as the language does; decimals fixes how many follow the point (0 to 6)."""
    if decimals is None:
        return format_decimal(_decimal(value), locale=_setting(context).babel)
    if not 0 <= decimals <= 6:
        raise ValueError("0 to 6 decimals")
    pattern = "#,##0" + ("." + "0" * decimals if decimals else "")
    return format_decimal(_decimal(value), format=pattern, locale=_setting(context).babel)


@pass_context
def percent(context: Context, value: Any) -> str:
    """`{{ 30|percent }}`: 30 is thirty per cent, written as the language does (%30 in Turkish)."""
    return format_percent(_decimal(value) / 100, locale=_setting(context).babel)


@pass_context
def day(context: Context, value: Any, style: str = "long") -> str:
    """`{{ deliveredAt|date }}`: an RFC 3339 time or an ISO date; the day it is where the recipient lives."""
    setting = _setting(context)
    found = _moment(value, setting.zone)
    return format_date(found.date() if isinstance(found, datetime) else found, _style(style), setting.babel)


@pass_context
def clock(context: Context, value: Any, style: str = "short") -> str:
    """`{{ changedAt|time }}`: the time of the day where the recipient lives."""
    setting = _setting(context)
    return format_time(_instant(value), _style(style), setting.zone, setting.babel)


@pass_context
def moment(context: Context, value: Any, style: str = "long") -> str:
    """`{{ changedAt|datetime }}`: day and time where the recipient lives; the style is the day's, the time is short."""
    setting, found = _setting(context), _instant(value)
    together = str(get_datetime_format(_style(style), setting.babel)).replace("'", "")
    clock_time = format_time(found, "short", setting.zone, setting.babel)
    return together.format(clock_time, format_date(found.astimezone(setting.zone), style, setting.babel))


@pass_context
def plural(context: Context, count: Any, *forms: Any, **by_category: Any) -> str:
    """`{{ n|plural(one="# item", other="# items") }}`: the form that the language's rules choose; # is the number.

    Categories are CLDR's: zero, one, two, few, many, other; other is required and stands in for those not given.
    """
    if forms or "other" not in by_category:
        raise ValueError('name the forms, other among them: plural(one="...", other="...")')
    found, locale = _decimal(count), _setting(context).babel
    form = str(by_category.get(locale.plural_form(found), by_category["other"]))
    return form.replace("#", format_decimal(found, locale=locale))


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "money": money,
    "number": number,
    "percent": percent,
    "date": day,
    "time": clock,
    "datetime": moment,
    "plural": plural,
}


def _setting(context: Context) -> Setting:
    setting: Setting = context[SETTING]
    return setting


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError("not a number")  # noqa: TRY004  one kind of error for whatever does not fit
    try:
        found = Decimal(str(value).strip())
    except InvalidOperation as error:
        raise ValueError("not a number") from error
    if not found.is_finite() or found.adjusted() > _MAX_DIGITS or (found and found.adjusted() < -_MAX_DIGITS):
        raise ValueError("not a number of everyday size")
    return found


def _moment(value: Any, zone: ZoneInfo) -> datetime | date:
    if isinstance(value, str) and len(value) == len("2026-11-11"):
        return date.fromisoformat(value)
    return _instant(value).astimezone(zone)


def _instant(value: Any) -> datetime:
    if not isinstance(value, str):
        raise ValueError("not a time")  # noqa: TRY004  one kind of error for whatever does not fit
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError("a time without its offset")
    return found.astimezone(UTC)


def _style(style: str) -> Any:
    if style not in _STYLES:
        raise ValueError("short, medium, long or full")
    return style
