"""Devices as lines: where a user's pushes go."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, StringConstraints, ValidationError

from services.ingest.admin.imports.kind import Written
from shared.core.sealing import KeyRing
from shared.postgres.consent import find_people
from shared.postgres.pool import Connection
from shared.postgres.recipient import DeviceProfile, put_devices
from shared.profile.device import device_of
from shared.profile.model import DeviceBody
from shared.web.invalid import invalid_fields
from shared.web.model import Body, UserId
from shared.web.problem import FieldError, Problem


class DeviceFields(Body):
    """A device with a token. A browser's subscription is registered by the browser alone: it may change any day."""

    token: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    platform: Literal["IOS", "ANDROID", "WEB"]
    app_id: Annotated[str, StringConstraints(max_length=128, pattern=r"^[A-Za-z0-9._-]*$")] = ""
    environment: Literal["production", "sandbox"] = "production"

    def profile(self) -> DeviceProfile | FieldError:
        """Ready to be stored; or what is wrong with its token."""
        body = DeviceBody(platform=self.platform, token=self.token, appId=self.app_id, environment=self.environment)
        found = device_of(body, frozenset())
        if isinstance(found, Problem):
            return FieldError(found.errors[0].path, found.detail)
        return DeviceProfile(found.address, found.platform, found.app_id, found.environment)


class DeviceLine(DeviceFields):
    user_id: UserId


@dataclass(frozen=True, slots=True)
class UserDevice:
    user_id: str
    device: DeviceProfile = field(repr=False)


class DevicesKind:
    """Users whom nobody knows yet are made: their devices are there when their first message comes."""

    name: Final = "devices"
    line: Final[type[BaseModel]] = DeviceLine

    def read(self, content: Any, _now: datetime) -> UserDevice | tuple[FieldError, ...]:
        try:
            line = DeviceLine.model_validate(content)
        except ValidationError as error:
            return invalid_fields(error).errors
        device = line.profile()
        return (device,) if isinstance(device, FieldError) else UserDevice(str(line.user_id), device)

    async def write(
        self, connection: Connection, ring: KeyRing, values: Sequence[UserDevice], *, recorded_by: str
    ) -> Written:
        del recorded_by  # a device has no author in its table; the audit log names the run's
        people = await find_people(connection, [value.user_id for value in values], create=True)
        await put_devices(
            connection, ring, {value.device.token: (people[value.user_id].user_id, value.device) for value in values}
        )
        return Written()
