"""Settings of Web Push (`ULAK_WEBPUSH_*`): browsers' subscriptions, without Firebase."""

from functools import cached_property
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from shared.providers.settings import ProviderSettings
from shared.runtime.settings import listed, settings_config


class WebPushSettings(ProviderSettings):
    """One VAPID key pair; its public half is what the web page gives to `pushManager.subscribe`."""

    model_config = SettingsConfigDict(**settings_config("ULAK_WEBPUSH_"), populate_by_name=True)

    vapid_key_file: Path | None = Field(default=None, description="PEM of the VAPID private key (P-256).")
    vapid_subject: str | None = Field(
        default=None,
        pattern=r"^(mailto:[^@\s]+@[^@\s]+|https://\S+)$",
        description="Whom push services write to about our traffic (RFC 8292): mailto:... or https://...",
    )
    trusted_push_hosts: str = Field(
        default="",
        validation_alias="ULAK_DEVICE_TRUSTED_PUSH_HOSTS",
        description="Hosts (with a port where it is not 443) that Web Push endpoints may name without being public, "
        "separated by commas: a push service of your own.",
    )
    concurrency: int = Field(default=200, ge=1, le=2000, description="Messages on the wire at once, per worker.")

    @property
    def configured(self) -> bool:
        return self.vapid_key_file is not None

    @cached_property
    def push_hosts(self) -> frozenset[str]:
        return frozenset(listed(self.trusted_push_hosts))

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.vapid_key_file is not None:
            if not self.vapid_key_file.is_file():
                raise ValueError("ULAK_WEBPUSH_VAPID_KEY_FILE names no file")
            if self.vapid_subject is None:
                raise ValueError("ULAK_WEBPUSH_VAPID_SUBJECT is missing beside ULAK_WEBPUSH_VAPID_KEY_FILE")
        return self
