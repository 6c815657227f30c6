"""Recipients as files: YAML (a list, or `users:` with one) or NDJSON, one user a line. Reads and checks only."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from shared.core.address import EmailAddress, InvalidAddressError, parse_email, parse_phone
from shared.core.zone import zone_names
from shared.postgres.recipient import DeviceProfile, PreferenceProfile, RecipientProfile
from shared.runtime.fault import faults
from shared.wire.channel import Category, Channels


@dataclass(frozen=True, slots=True)
class UserProblem:
    """What is wrong with one user; `place` is the line or position, and the field. Never repeats an address."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def _decimal(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _zone(value: str) -> str:
    if value not in zone_names():
        raise ValueError("not a time zone: give an IANA name like Europe/Istanbul")
    return value


class _Entry(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True
    )


class DeviceEntry(_Entry):
    token: str = Field(min_length=1, max_length=4096)
    platform: Literal["IOS", "ANDROID", "WEB"]
    app_id: str = Field(default="", max_length=128)
    environment: Literal["production", "sandbox"] = "production"


class UserEntry(_Entry):
    user_id: Annotated[
        str, BeforeValidator(_decimal), Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")
    ]
    email: str | None = Field(default=None, max_length=320)
    phone: str | None = Field(default=None, max_length=40)
    locale: str | None = Field(default=None, max_length=16, pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")
    time_zone: Annotated[str, AfterValidator(_zone)] | None = Field(default=None, max_length=64)
    attributes: dict[str, Any] | None = None
    devices: list[DeviceEntry] = Field(default_factory=list)
    preferences: dict[Category, dict[str, bool]] = Field(default_factory=dict)


def read_users(path: Path, channels: Channels) -> tuple[list[RecipientProfile], list[UserProblem]]:
    """Every user of the file, and everything that is wrong with it. Raises OSError for what cannot be read."""
    profiles: list[RecipientProfile] = []
    problems: list[UserProblem] = []
    for place, content in _entries(path, problems):
        profile = _profile(place, content, channels, problems)
        if profile is not None:
            profiles.append(profile)
    return profiles, problems


def _entries(path: Path, problems: list[UserProblem]) -> Iterator[tuple[str, Any]]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix in {".ndjson", ".jsonl"}:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    yield f"line {number}", orjson.loads(line)
                except orjson.JSONDecodeError:
                    problems.append(UserProblem(f"line {number}", "not JSON"))
        return
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problems.append(UserProblem(f"line {mark.line + 1}" if mark else path.name, "not YAML"))
        return
    users = content.get("users") if isinstance(content, dict) else content
    if not isinstance(users, list):
        problems.append(UserProblem(path.name, "expected a list of users, or `users:` with one"))
        return
    for number, entry in enumerate(users, 1):
        yield f"user {number}", entry


def _profile(place: str, content: Any, channels: Channels, problems: list[UserProblem]) -> RecipientProfile | None:
    try:
        entry = UserEntry.model_validate(content)
    except ValidationError as error:
        for where, detail in faults(error.errors(include_url=False, include_input=False)):
            problems.append(UserProblem(f"{place}, {where}", detail))
        return None
    found = len(problems)
    email, phone = _addresses(place, entry, problems)
    preferences = tuple(_preferences(place, entry, channels, problems))
    if len(problems) > found:
        return None
    return RecipientProfile(
        external_id=entry.user_id,
        email=email,
        phone=phone,
        locale=entry.locale,
        time_zone=entry.time_zone,
        attributes=entry.attributes,
        devices=tuple(DeviceProfile(d.token, d.platform, d.app_id, d.environment) for d in entry.devices),
        preferences=preferences,
    )


def _addresses(place: str, entry: UserEntry, problems: list[UserProblem]) -> tuple[EmailAddress | None, str | None]:
    email = phone = None
    try:
        email = None if entry.email is None else parse_email(entry.email)
    except InvalidAddressError as error:
        problems.append(UserProblem(f"{place}, email", str(error)))
    try:
        phone = None if entry.phone is None else parse_phone(entry.phone)
    except InvalidAddressError as error:
        problems.append(UserProblem(f"{place}, phone", str(error)))
    return email, phone


def _preferences(
    place: str, entry: UserEntry, channels: Channels, problems: list[UserProblem]
) -> Iterator[PreferenceProfile]:
    for category, by_channel in entry.preferences.items():
        for channel, enabled in by_channel.items():
            if channel in channels:
                yield PreferenceProfile(category, channel, enabled)
            else:
                problems.append(
                    UserProblem(
                        f"{place}, preferences.{category}",
                        f"unknown channel {channel!r}: use {', '.join(channels.names)}",
                    )
                )
