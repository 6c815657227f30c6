"""What can be set about users' devices, from `ULAK_DEVICE_*`, wherever they are registered."""

from functools import cached_property

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.runtime.settings import listed, settings_config


class DeviceSettings(BaseSettings):
    """How many devices a user has, and whose push services are called."""

    model_config = settings_config("ULAK_DEVICE_")

    max_per_user: int = Field(default=50, ge=1, le=500, description="Devices of a user; above, the longest unseen go.")
    trusted_push_hosts: str = Field(
        default="",
        description="Hosts (with a port where it is not 443) that Web Push endpoints may name without being public, "
        "separated by commas: a push service of your own.",
    )

    @cached_property
    def push_hosts(self) -> frozenset[str]:
        return frozenset(listed(self.trusted_push_hosts))
