"""Preferences as lines: what a user wants to be told, on which channel."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from services.ingest.admin.imports.kind import Written
from shared.core.sealing import KeyRing
from shared.postgres.consent import find_people
from shared.postgres.pool import Connection
from shared.postgres.recipient import put_preferences
from shared.profile.model import PreferencesBody
from shared.profile.preference import Told, Words, told, words
from shared.profile.preference_record import type_categories
from shared.web.invalid import invalid_fields
from shared.web.model import Body, UserId
from shared.web.problem import FieldError, Problem
from shared.wire.channel import DEFAULT_CHANNELS, Category


class PreferencesLine(Body):
    user_id: UserId
    preferences: PreferencesBody


@dataclass(frozen=True, slots=True)
class UserPreferences:
    user_id: str
    said: Told


def read_preferences(body: PreferencesBody) -> Told | FieldError:
    """What is said, before its types are known."""
    said = told(body, DEFAULT_CHANNELS.names)
    return _wrong(said) if isinstance(said, Problem) else said


async def known_words(connection: Connection, said: Sequence[Told]) -> list[Words | FieldError]:
    """Each as it is stored, or what keeps it from being: a type that does not exist."""
    categories = await type_categories(connection, {name for each in said for name in each.types})
    found = [words(each, categories) for each in said]
    return [_wrong(each) if isinstance(each, Problem) else each for each in found]


class PreferencesKind:
    """Users whom nobody knows yet are made: their words are there when their first message comes."""

    name: Final = "preferences"
    line: Final[type[BaseModel]] = PreferencesLine

    def read(self, content: Any, _now: datetime) -> UserPreferences | tuple[FieldError, ...]:
        try:
            line = PreferencesLine.model_validate(content)
        except ValidationError as error:
            return invalid_fields(error).errors
        said = read_preferences(line.preferences)
        return (said,) if isinstance(said, FieldError) else UserPreferences(str(line.user_id), said)

    async def write(
        self, connection: Connection, _ring: KeyRing, values: Sequence[UserPreferences], *, recorded_by: str
    ) -> Written:
        del recorded_by  # a preference has no author in its table; the audit log names the run's
        refused: dict[int, FieldError] = {}
        taken: list[tuple[str, Words]] = []
        for position, found in enumerate(await known_words(connection, [value.said for value in values])):
            if isinstance(found, FieldError):
                refused[position] = found
            else:
                taken.append((values[position].user_id, found))
        people = await find_people(connection, [user for user, _ in taken], create=True)
        stored: dict[tuple[int, Category, str, str], bool] = {}
        for user, said in taken:
            stored |= {(people[user].user_id, *word): wanted for word, wanted in said.items()}
        await put_preferences(connection, stored)
        return Written(refused, {user_id for user_id, *_ in stored})


def _wrong(problem: Problem) -> FieldError:
    return FieldError(f"preferences.{problem.errors[0].path}", problem.detail)
