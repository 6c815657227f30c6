"""The relay's settings: pace, horizons, retention."""

from typing import Final

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from shared.postgres.source import SourceSpec
from shared.runtime.settings import settings_config

_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR


class RelaySettings(BaseSettings):
    """`ULAK_RELAY_*`. Times in seconds."""

    model_config = settings_config("ULAK_RELAY_")

    batch: int = Field(default=1000, ge=1, le=10_000, description="Outbox rows per transaction.")
    drains: int = Field(default=2, ge=1, le=8, description="Transactions at a time per class, source and process.")
    poll_sec: float = Field(
        default=0.1,
        gt=0,
        le=60,
        description="How often an outbox is looked at while rows are found, and always where no NOTIFY is heard.",
    )
    listened_poll_sec: float = Field(
        default=2.0, gt=0, le=60, description="How rarely an idle outbox is looked at that also wakes by NOTIFY."
    )
    full_scan_sec: float = Field(default=1.0, gt=0, description="How often an outbox is read from its oldest row on.")
    listen: bool = Field(default=True, description="LISTEN for the sources' NOTIFY; needs a direct connection.")
    deferred_poll_sec: float = Field(
        default=0.75,
        gt=0,
        le=60,
        description="How often what waits for its time is looked at: it goes at most so long after it.",
    )
    deferred_visibility_sec: float = Field(default=60.0, gt=0, description="When a woken notification is woken again.")
    release_per_second: float = Field(
        default=1000.0, gt=0, description="Deliveries let go after a pause, where `ulak resume` named no pace."
    )
    sweep_horizons_sec: str = Field(default="600,3600", description="Ages at which id ranges are swept first.")
    sweep_repeat_sec: int = Field(default=21_600, ge=1, description="Then every so often, until the longest TTL.")
    sweep_page: int = Field(default=1000, ge=1, le=10_000, description="Notifications per step of the sweep.")
    sweep_pause_sec: float = Field(default=0.05, ge=0, description="Rest between two steps of the sweep.")
    sweep_poll_sec: float = Field(default=10.0, gt=0, description="How often the sweep looks for ids to sweep.")
    reaper_poll_sec: float = Field(default=1.0, gt=0, description="How often leases are looked at.")
    reaper_grace_sec: float = Field(default=1.0, ge=0, description="For clocks: how long past its end a lease is left.")
    upkeep_poll_sec: float = Field(default=30.0, gt=0, description="How often small tables are pruned.")
    keep_published_sec: float = Field(
        default=6 * _HOUR,
        ge=0,
        description="How long a source keeps what was published, for `ulak outbox republish`; 0: not at all.",
    )
    partitions_ahead_days: int = Field(default=7, ge=1, le=60, description="How many days of partitions exist ahead.")
    unknown_close_sec: float = Field(default=72 * _HOUR, gt=0, description="When an UNKNOWN without receipt is closed.")
    applied_receipts_keep_sec: float = Field(default=8 * _DAY, gt=0, description="Longer than the receipts topic.")
    parked_receipts_keep_sec: float = Field(default=_DAY, gt=0, description="When a receipt without a send is dropped.")

    inbox_keep_sec: float = Field(
        default=90 * _DAY, gt=0, description="When an entry leaves the inbox, read or not (seed 003 keeps 90 days)."
    )
    devices_keep_sec: float = Field(
        default=270 * _DAY, gt=0, description="When a device that no app has told of is forgotten (FCM: 270 days)."
    )
    provider_events_keep_sec: float = Field(
        default=90 * _DAY, gt=0, description="How long switches of providers are told by `ulak provider list`."
    )
    dead_letters_keep_sec: float = Field(
        default=90 * _DAY, gt=0, description="When a dead letter that was replayed, closed or purged is forgotten."
    )
    imports_keep_sec: float = Field(
        default=90 * _DAY, gt=0, description="When an import and its bad lines are forgotten, from its last line on."
    )

    @field_validator("sweep_horizons_sec")
    @classmethod
    def _rising_horizons(cls, text: str) -> str:
        horizons = parse_horizons(text)
        if not horizons or list(horizons) != sorted(set(horizons)) or horizons[0] < 1:
            raise ValueError("whole seconds, rising, separated by commas, like 600,3600")
        return text

    def outbox_poll_sec(self, spec: SourceSpec) -> float:
        """The longest rest between two looks at an idle outbox: long where NOTIFY ends it, for each look costs CPU."""
        return self.listened_poll_sec if self.listens_to(spec) else self.poll_sec

    def listens_to(self, spec: SourceSpec) -> bool:
        """Whether this relay hears the source's NOTIFY."""
        return self.listen and spec.direct_dsn is not None

    @property
    def first_horizons(self) -> tuple[int, ...]:
        return parse_horizons(self.sweep_horizons_sec)


def parse_horizons(text: str) -> tuple[int, ...]:
    """Whole seconds; ValueError for anything else."""
    return tuple(int(part) for part in text.replace(",", " ").split())
