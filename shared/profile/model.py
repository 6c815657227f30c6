"""Bodies about preferences and devices, as apps, pages and back offices write and read them (docs/openapi/)."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from shared.web.model import PRINTABLE, Answer, Body

Switches = dict[str, bool]
"""Channel -> whether the user wants it."""


class PreferencesBody(Body):
    """Only what is named changes (seed 003)."""

    security: Switches | None = Field(default=None, alias="SECURITY", description="Nothing here can be switched off.")
    transactional: Switches | None = Field(default=None, alias="TRANSACTIONAL")
    marketing: Switches | None = Field(default=None, alias="MARKETING", examples=[{"PUSH": False, "EMAIL": True}])
    types: dict[str, Switches] | None = Field(
        default=None, max_length=100, description="By notification type, before its category's word."
    )


class OwnWords(Answer):
    """What the user has said, and nothing else."""

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)

    security: Switches = Field(alias="SECURITY")
    transactional: Switches = Field(alias="TRANSACTIONAL")
    marketing: Switches = Field(alias="MARKETING")


class PreferencesAnswer(OwnWords):
    """What holds for each category and channel: the user's own word, or the default where there is none."""

    types: dict[str, Switches] = Field(description="Types of which the user has said something of their own.")
    own: OwnWords
    consents: dict[str, Literal["granted", "withdrawn", "none"]] = Field(
        description="By channel: whether marketing is allowed at all. Read-only here; a preference does not change it."
    )


class SubscriptionKeys(Body):
    p256dh: str = Field(alias="p256dh", max_length=200, description="base64url of the browser's public key, 65 bytes.")
    auth: str = Field(max_length=64, description="base64url of the shared secret, 16 bytes.")


class Subscription(Body):
    """A browser's `PushSubscription.toJSON()`."""

    endpoint: str = Field(max_length=2048)
    keys: SubscriptionKeys
    expiration_time: float | None = None


DeviceName = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=PRINTABLE)]


class DeviceBody(Body):
    """A device as the app knows it; send it at each start. Exactly one of token and subscription."""

    platform: Literal["IOS", "ANDROID", "WEB"]
    token: str | None = Field(default=None, min_length=1, max_length=4096)
    subscription: Subscription | None = Field(default=None, description="Web Push; platform is WEB.")
    app_id: str = Field(default="", max_length=128, pattern=r"^[A-Za-z0-9._-]*$")
    environment: Literal["production", "sandbox"] = "production"
    permission: Literal["granted", "provisional", "denied"] = "granted"
    device_id: DeviceName | None = Field(
        default=None, description="The app's own name for this installation: a new token replaces its old one."
    )


class DeviceAnswer(Answer):
    device_id: str = Field(description="The app's own name of it, or ours (dev_...) where the app gave none.")
    platform: Literal["IOS", "ANDROID", "WEB"]
    app_id: str
    environment: str
    permission: str
    active: bool
    token: str = Field(description="Masked.", examples=["…1f9c"])
    last_seen: datetime
    created_at: datetime


class DevicesAnswer(Answer):
    devices: list[DeviceAnswer]
