"""What a user wants to be told on which channel: their own words, and what holds where they said nothing. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.profile import problem
from shared.profile.model import PreferencesBody
from shared.web.problem import Problem
from shared.wire.channel import Category

Word = tuple[Category, str, str]
"""Category, channel, and the type of which it speaks; '' is the whole category."""
Words = Mapping[Word, bool]


@dataclass(frozen=True, slots=True)
class Told:
    """What a request says, before its types are known. by_type: (type, channel) -> wanted."""

    by_category: Mapping[tuple[Category, str], bool]
    by_type: Mapping[tuple[str, str], bool]

    @property
    def types(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.by_type)


def told(body: PreferencesBody, channels: Collection[str]) -> Told | Problem:
    """The request's words. Refused as a whole: an unknown channel, and SECURITY switched off."""
    by_category: dict[tuple[Category, str], bool] = {}
    for category, switches in _by_category(body):
        for channel, wanted in (switches or {}).items():
            path = f"{category}.{channel}"
            if channel not in channels:
                return _unknown_channel(path, channels)
            if category is Category.SECURITY and not wanted:
                return _locked(path)
            by_category[category, channel] = wanted
    by_type: dict[tuple[str, str], bool] = {}
    for name, switches in (body.types or {}).items():
        for channel, wanted in switches.items():
            if channel not in channels:
                return _unknown_channel(f"types.{name}.{channel}", channels)
            by_type[name, channel] = wanted
    return Told(by_category, by_type)


def words(said: Told, categories: Mapping[str, Category]) -> Words | Problem:
    """As they are stored; categories are those of the types that exist."""
    found: dict[Word, bool] = {
        (category, channel, ""): wanted for (category, channel), wanted in said.by_category.items()
    }
    for (name, channel), wanted in said.by_type.items():
        category = categories.get(name)
        path = f"types.{name}.{channel}"
        if category is None:
            return problem.UNKNOWN_TYPE(
                "There is no notification type of this name. Check its spelling.", f"types.{name}"
            )
        if category is Category.SECURITY and not wanted:
            return _locked(path)
        found[category, channel, name] = wanted
    return found


def preferences_body(own: Words, consents: Mapping[str, bool], channels: Collection[str]) -> dict[str, Any]:
    """The answer. No word is a yes (the preference rule of shared/decision); SECURITY is one whatever is stored.

    consents: channel -> granted, of those about which the user has ever said something.
    """
    spoken = {category.value: _switches(own, category) for category in Category}
    types: dict[str, dict[str, bool]] = {}
    for (_, channel, name), wanted in sorted(own.items()):
        if name:
            types.setdefault(name, {})[channel] = wanted
    effective = {
        category.value: {
            channel: category is Category.SECURITY or spoken[category].get(channel, True) for channel in channels
        }
        for category in Category
    }
    stated = {True: "granted", False: "withdrawn", None: "none"}
    return {
        **effective,
        "types": types,
        "own": spoken,
        "consents": {channel: stated[consents.get(channel)] for channel in channels},
    }


def _switches(own: Words, category: Category) -> dict[str, bool]:
    return {channel: wanted for (of, channel, name), wanted in sorted(own.items()) if of is category and not name}


def _by_category(body: PreferencesBody) -> Iterable[tuple[Category, Mapping[str, bool] | None]]:
    yield Category.SECURITY, body.security
    yield Category.TRANSACTIONAL, body.transactional
    yield Category.MARKETING, body.marketing


def _unknown_channel(path: str, channels: Collection[str]) -> Problem:
    return problem.UNKNOWN_CHANNEL(f"There is no such channel. Use {', '.join(channels)}.", path)


def _locked(path: str) -> Problem:
    return problem.SECURITY_LOCKED(
        "Messages about the safety of an account (codes, changed passwords, new sign-ins) are always sent: "
        "someone who took the account over could else silence them. Leave this field out.",
        path,
    )
