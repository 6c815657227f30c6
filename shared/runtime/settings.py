"""Settings from `ULAK_*` environment variables: one frozen model per concern, read in composition roots only."""

import sys
from typing import TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

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
    """The language of whoever has not said theirs: ingest checks parameters and the router renders by the same one."""

    model_config = settings_config("ULAK_DEFAULT_")

    locale: str = Field(
        default="tr",
        pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$",
        description="Locale of templates for recipients without one, and for whom theirs is missing (J3).",
    )


def load(model: type[S]) -> S:
    """Build a settings model, or end the process with one sentence per wrong setting: its name and what is wrong.

    Never prints a value: it may be a secret.
    """
    try:
        return model()
    except ValidationError as error:
        prefix = str(model.model_config.get("env_prefix", ""))
        for problem in error.errors(include_input=False, include_url=False):
            name = f"{prefix}{'_'.join(str(part) for part in problem['loc'])}".upper()
            remedy = "set it" if problem["type"] == "missing" else "correct it"
            print(f"{name}: {problem['msg']}; {remedy} (docs/settings.md)", file=sys.stderr)
        raise SystemExit(2) from None
