"""Settings from `ULAK_*` environment variables: one frozen model per concern, read in composition roots only."""

import sys
from typing import Literal, TypeVar

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.core.zone import zone_names
from shared.runtime.fault import faults

S = TypeVar("S", bound=BaseSettings)


def settings_config(prefix: str) -> SettingsConfigDict:
    """The one way settings models are configured: frozen, from the environment, foreign variables ignored."""
    return SettingsConfigDict(env_prefix=prefix, frozen=True, extra="ignore", hide_input_in_errors=True)


class HttpSettings(BaseSettings):
    """Where a service's HTTP surface listens."""

    model_config = settings_config("ULAK_HTTP_")

    host: str = Field(default="127.0.0.1", description="Address the HTTP surface binds to; 0.0.0.0 in a container.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port of the HTTP surface.")
    pre_stop_sec: float = Field(
        default=0.0, ge=0, description="How long requests are still taken after SIGTERM (Kubernetes preStop, G2)."
    )
    drain_sec: float = Field(default=20.0, gt=0, description="How long running requests may take to finish at stop.")


class HealthSettings(BaseSettings):
    """Where every service answers `/healthz`, `/readyz` and `/metrics`."""

    model_config = settings_config("ULAK_HEALTH_")

    host: str = Field(default="127.0.0.1", description="Address of the health port; 0.0.0.0 in a container.")
    port: int = Field(default=9100, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics.")


class LocaleSettings(BaseSettings):
    """What holds for whoever has not said theirs, and where we send from: one for all who check and render by it."""

    model_config = settings_config("ULAK_DEFAULT_")

    locale: str = Field(
        default="tr",
        pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$",
        description="Locale of templates for recipients without one, and for whom theirs is missing (J3).",
    )
    time_zone: str = Field(
        default="Europe/Istanbul",
        max_length=64,
        description="IANA zone of recipients without one: their quiet hours and days are counted by it (T4).",
    )

    marketing_profile: Literal["TR", "EU", "NONE"] = Field(
        default="TR",
        description="Whose law marketing templates are checked by: the sender's name and a way to refuse that Turkey "
        "or the EU demand, or NONE (shared/content/profile.py).",
    )

    @field_validator("time_zone")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in zone_names():
            raise ValueError("no IANA time zone: use a name like Europe/Istanbul, not an offset")
        return name


class LinkSettings(BaseSettings):
    """Where recipients reach us: links in what is sent to them lead there."""

    model_config = settings_config("ULAK_ME_")

    public_url: str | None = Field(
        default=None,
        max_length=200,
        pattern=r"^(https://[A-Za-z0-9.-]+(:\d+)?|http://(127\.0\.0\.1|localhost)(:\d+)?)(/[A-Za-z0-9._/-]*)?$",
        description="Address of services/me as the internet sees it, https. Without it, marketing mails carry no "
        "one-click unsubscribing (RFC 8058), which large mailbox providers demand.",
    )


def load(model: type[S]) -> S:
    """Build a settings model, or end the process with one sentence per wrong setting: its name and what is wrong.

    Never prints a value: it may be a secret.
    """
    try:
        return model()
    except ValidationError as error:
        prefix = str(model.model_config.get("env_prefix", ""))
        for path, detail in faults(error.errors(include_input=False, include_url=False)):
            name = f"{prefix}{path.replace('.', '_')}".upper()
            print(f"{name}: {detail} (docs/settings.md)", file=sys.stderr)
        raise SystemExit(2) from None


def listed(text: str) -> tuple[str, ...]:
    """The entries of a setting that separates them by commas or blanks."""
    return tuple(text.replace(",", " ").split())
