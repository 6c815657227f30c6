"""Recipients as lines: who is told, by which addresses, on which devices, and what of it they want."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, Field, ValidationError

from services.ingest.admin.imports.devices import DeviceFields
from services.ingest.admin.imports.kind import Written
from services.ingest.admin.imports.preferences import known_words, read_preferences
from shared.core.sealing import KeyRing
from shared.postgres.pool import Connection
from shared.postgres.recipient import DeviceProfile, PreferenceProfile, RecipientProfile, put_recipients
from shared.profile.model import PreferencesBody
from shared.profile.preference import Told
from shared.profile.recipient import SaidRecipient
from shared.web.invalid import invalid_fields
from shared.web.problem import FieldError


class RecipientLine(SaidRecipient):
    """What is given replaces what is known; what is left out, or null, stays."""

    devices: list[DeviceFields] = Field(default_factory=list, max_length=100)
    preferences: PreferencesBody = Field(default_factory=PreferencesBody)


@dataclass(frozen=True, slots=True)
class Recipient:
    """A checked line; preferences are not in the profile yet: their types are looked up when it is written."""

    profile: RecipientProfile = field(repr=False)
    said: Told


class RecipientsKind:
    name: Final = "recipients"
    line: Final[type[BaseModel]] = RecipientLine

    def read(self, content: Any, _now: datetime) -> Recipient | tuple[FieldError, ...]:
        try:
            line = RecipientLine.model_validate(content)
        except ValidationError as error:
            return invalid_fields(error).errors
        profile, said = line.profile(), read_preferences(line.preferences)
        devices = [_device(index, device) for index, device in enumerate(line.devices)]
        if isinstance(profile, tuple):
            return profile
        if isinstance(said, FieldError):
            return (said,)
        if wrong := tuple(device for device in devices if isinstance(device, FieldError)):
            return wrong
        known = tuple(device for device in devices if isinstance(device, DeviceProfile))
        return Recipient(replace(profile, devices=known), said)

    async def write(
        self, connection: Connection, ring: KeyRing, values: Sequence[Recipient], *, recorded_by: str
    ) -> Written:
        del recorded_by  # a recipient has no author in its table; the audit log names the run's
        refused: dict[int, FieldError] = {}
        profiles: list[RecipientProfile] = []
        for position, found in enumerate(await known_words(connection, [value.said for value in values])):
            if isinstance(found, FieldError):
                refused[position] = found
                continue
            preferences = tuple(
                PreferenceProfile(category, channel, wanted, of_type)
                for (category, channel, of_type), wanted in found.items()
            )
            profiles.append(replace(values[position].profile, preferences=preferences))
        put = await put_recipients(connection, ring, profiles)
        return Written(refused, {put.user_ids[each.external_id] for each in profiles if each.preferences})


def _device(index: int, line: DeviceFields) -> DeviceProfile | FieldError:
    found = line.profile()
    return FieldError(f"devices.{index}.{found.path}", found.detail) if isinstance(found, FieldError) else found
