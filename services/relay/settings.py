"""The relay's settings: sources, pace, horizons, retention."""

from typing import Final

import orjson
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from shared.runtime.settings import settings_config

_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR


class RelaySettings(BaseSettings):
    """`ULAK_RELAY_*`. Times in seconds."""

    model_config = settings_config("ULAK_RELAY_")

    sources: str = Field(
        default="",
        description="DSNs of other databases with an `ulak.outbox` (`ulak outbox ddl`): separated by commas or spaces, "
        "or a JSON list.",
        repr=False,
    )
    batch: int = Field(default=1000, ge=1, le=10_000, description="Outbox rows per transaction.")
    drains: int = Field(default=2, ge=1, le=8, description="Transactions at a time per class, source and process.")
    poll_sec: float = Field(default=0.1, gt=0, le=60, description="How often an idle outbox is looked at.")
    full_scan_sec: float = Field(default=1.0, gt=0, description="How often an outbox is read from its oldest row on.")
    listen: bool = Field(default=True, description="LISTEN for the sources' NOTIFY; needs a direct connection.")
    deferred_visibility_sec: float = Field(default=60.0, gt=0, description="When a woken notification is woken again.")
    sweep_horizons_sec: str = Field(default="600,3600", description="Ages at which id ranges are swept first.")
    sweep_repeat_sec: int = Field(default=21_600, ge=1, description="Then every so often, until the longest TTL.")
    sweep_page: int = Field(default=1000, ge=1, le=10_000, description="Notifications per step of the sweep.")
    sweep_pause_sec: float = Field(default=0.05, ge=0, description="Rest between two steps of the sweep.")
    sweep_poll_sec: float = Field(default=10.0, gt=0, description="How often the sweep looks for ids to sweep.")
    reaper_poll_sec: float = Field(default=1.0, gt=0, description="How often leases are looked at.")
    reaper_grace_sec: float = Field(default=1.0, ge=0, description="For clocks: how long past its end a lease is left.")
    upkeep_poll_sec: float = Field(default=30.0, gt=0, description="How often small tables are pruned.")
    partitions_ahead_days: int = Field(default=7, ge=1, le=60, description="How many days of partitions exist ahead.")
    unknown_close_sec: float = Field(default=72 * _HOUR, gt=0, description="When an UNKNOWN without receipt is closed.")
    applied_receipts_keep_sec: float = Field(default=8 * _DAY, gt=0, description="Longer than the receipts topic.")
    parked_receipts_keep_sec: float = Field(default=_DAY, gt=0, description="When a receipt without a send is dropped.")

    @field_validator("sources")
    @classmethod
    def _readable_sources(cls, text: str) -> str:
        for dsn in parse_sources(text):
            if not dsn.startswith(("postgres://", "postgresql://")):
                raise ValueError("each source is a DSN like postgresql://user:password@host:5432/database")
        return text

    @field_validator("sweep_horizons_sec")
    @classmethod
    def _rising_horizons(cls, text: str) -> str:
        horizons = parse_horizons(text)
        if not horizons or list(horizons) != sorted(set(horizons)) or horizons[0] < 1:
            raise ValueError("whole seconds, rising, separated by commas, like 600,3600")
        return text

    @property
    def source_dsns(self) -> tuple[str, ...]:
        return parse_sources(self.sources)

    @property
    def first_horizons(self) -> tuple[int, ...]:
        return parse_horizons(self.sweep_horizons_sec)


def parse_sources(text: str) -> tuple[str, ...]:
    """DSNs in order, doubles once. ValueError for a JSON value that is not a list of strings."""
    stripped = text.strip()
    if stripped.startswith("["):
        listed = orjson.loads(stripped)
        if not all(isinstance(entry, str) for entry in listed):
            raise ValueError("the JSON list of sources holds something else than strings")
        return tuple(dict.fromkeys(listed))
    return tuple(dict.fromkeys(stripped.replace(",", " ").split()))


def parse_horizons(text: str) -> tuple[int, ...]:
    """Whole seconds; ValueError for anything else."""
    return tuple(int(part) for part in text.replace(",", " ").split())
