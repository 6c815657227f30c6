"""Settings of the workers (`ULAK_WORKERS_*`)."""

from collections.abc import Mapping

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from shared.core.breaker import Policy
from shared.delivery.order import Order, parse_order
from shared.runtime.settings import settings_config
from shared.wire.channel import DEFAULT_CHANNELS, Lane


class WorkerSettings(BaseSettings):
    """What all lanes of a process share."""

    model_config = settings_config("ULAK_WORKERS_")

    count: int = Field(
        default=1,
        ge=1,
        description="Worker processes that share the providers' quotas; each goes on with its part if Redis is away.",
    )
    pool_size: int = Field(
        default=6, ge=1, le=100, description="Database connections per class of the lanes served: critical, tx, bulk."
    )
    batches_in_flight: int = Field(
        default=4, ge=1, le=32, description="Batches of one lane worked on at once, so that sends overlap with queries."
    )
    slots: int = Field(
        default=10,
        ge=1,
        le=200,
        description="Batches at once of a process that serves several classes: 30/30/30/10 of them belong to critical, "
        "tx, bulk and low, and are lent to the others while their own class has nothing to do.",
    )
    providers: Mapping[str, str] = Field(
        default={},
        description="Providers by lane or channel, the first preferred, as JSON: "
        '`{"SMS": "twilio, vonage", "sms-bulk": "netgsm=80 + twilio=20, vonage"}` (docs/providers.md, Routes). Without '
        "it all that are configured, in the order of docs/providers.md.",
    )
    drain_sec: float = Field(default=25.0, gt=0, description="How long batches under way may take at stop (G1).")

    @field_validator("providers")
    @classmethod
    def _orders(cls, providers: Mapping[str, str]) -> Mapping[str, str]:
        for name, order in providers.items():
            if name not in DEFAULT_CHANNELS and name not in {lane.name for lane in DEFAULT_CHANNELS.lanes}:
                raise ValueError(f"{name!r} is neither a lane nor a channel")
            parse_order(order)
        return providers

    def order(self, lane: Lane) -> Order | None:
        """What is said of the lane, or else of its channel; None: nothing."""
        said = self.providers.get(lane.name, self.providers.get(lane.channel))
        return None if said is None else parse_order(said)


class BreakerSettings(BaseSettings):
    """When a provider account is left alone (docs/operations.md); the same for all workers."""

    model_config = settings_config("ULAK_BREAKER_")

    failures_in_row: int = Field(default=10, ge=1, description="Failures one after the other that open a breaker.")
    window_sec: float = Field(default=10.0, ge=1, le=3600, description="Time over which rates are taken.")
    min_calls: int = Field(default=100, ge=1, description="Calls there must be in that time for a rate to count.")
    rate_percent: int = Field(
        default=50, ge=1, le=100, description="Of these, how many must have failed, or have been slow, to open it."
    )
    open_sec: float = Field(default=300.0, ge=1, description="How long an open one is left alone.")
    probes: int = Field(default=5, ge=1, description="Messages a second that may try it then; so many must work.")
    recovery_sec: float = Field(
        default=60.0, ge=0, description="How long it takes a closed one to get all of its traffic back."
    )

    @property
    def policy(self) -> Policy:
        return Policy(
            failures_in_row=self.failures_in_row,
            window_ms=int(self.window_sec * 1000),
            min_calls=self.min_calls,
            rate_percent=self.rate_percent,
            open_ms=int(self.open_sec * 1000),
            probes=self.probes,
            recovery_ms=int(self.recovery_sec * 1000),
        )
