"""What every provider's settings have in common: whether it is configured, its quota, its certificate authority."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings


class ProviderSettings(BaseSettings):
    """Base of a provider's settings; each sets its prefix. A provider without its settings is not configured, no error.

    The reserve is the part of the quota that only the critical class may use (semantics.md section 5).

    A secret is a field `x: SecretStr | None` with a field `x_file: Path | None` beside it: it is in the environment, or
    in the file that the other one names, and read from there at start.
    """

    ca_file: Path | None = Field(
        default=None, description="PEM of a certificate authority to trust beside the well-known ones."
    )
    concurrency: int = Field(default=50, ge=1, le=2000, description="Messages on the wire at once, per worker.")
    quota_per_second: float | None = Field(default=None, gt=0, description="Messages a second by contract; unset: any.")
    quota_reserve_per_second: float = Field(default=0, ge=0, description="Of these, for the critical class alone.")

    @property
    @abstractmethod
    def configured(self) -> bool:
        """Whether the settings name an account to send with."""

    @model_validator(mode="before")
    @classmethod
    def _read_secrets(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        read: dict[str, SecretStr] = {}
        for name, field in cls.model_fields.items():
            path = values.get(f"{name}_file")
            if not path or SecretStr not in get_args(field.annotation):
                continue
            setting = f"{cls.model_config.get('env_prefix', '')}{name}".upper()
            if values.get(name):
                raise ValueError(f"{setting} and {setting}_FILE are both set: unset one")
            try:
                read[name] = SecretStr(Path(path).read_text(encoding="utf-8").strip())
            except (OSError, UnicodeDecodeError):
                raise ValueError(f"{setting}_FILE names no file that can be read") from None
        return {**values, **read}
