"""What can be set about the user's API, from `ULAK_ME_*`."""

from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings

from shared.runtime.settings import listed, settings_config

MIN_SECRET_BYTES: Final = 32
"""RFC 7518 section 3.2: a key of HS256 has at least the hash's size."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class MeSettings(BaseSettings):
    """Whose tokens are believed, from which pages, and how much one user may ask."""

    model_config = settings_config("ULAK_ME_")

    jwt_secret: SecretStr | None = Field(
        default=None,
        description="Secret shared with whoever signs the users' tokens (HS256), at least 32 bytes; or set the JWKS.",
    )
    jwks_url: str | None = Field(
        default=None, description="Where the signer's public keys are (JWKS); https, or http on loopback."
    )
    jwks_algorithms: str = Field(
        default="RS256,ES256", description="Algorithms believed with keys of the JWKS: RS, PS, ES, EdDSA."
    )
    jwt_issuer: str = Field(min_length=1, description="What `iss` of every token must be.")
    jwt_audience: str = Field(min_length=1, description="What `aud` of every token must be, or hold.")
    jwt_leeway_sec: float = Field(default=10.0, ge=0, le=120, description="How far the signer's clock may be off.")
    jwks_refresh_sec: float = Field(default=300.0, gt=0, description="Age at which the JWKS is read again.")
    jwks_retry_sec: float = Field(
        default=10.0, gt=0, description="The JWKS is read at most this often, whatever key ids tokens name."
    )
    jwks_timeout_sec: float = Field(default=5.0, gt=0, description="How long reading the JWKS may take.")
    allowed_origins: str = Field(
        default="", description="Origins of the web pages that may call, separated by commas: https://shop.example."
    )
    rate_per_second: int = Field(default=10, ge=1, description="Requests a second and user, across all processes.")
    burst: int = Field(default=30, ge=1, description="Requests that a user who was quiet may make at once.")
    max_body_bytes: int = Field(default=64 * 1024, ge=1024, description="Largest body of a request.")
    body_timeout_sec: float = Field(default=10.0, gt=0, description="How long a body may take to arrive.")
    pool_size: int = Field(default=8, ge=1, le=100, description="Database connections of a process.")

    @field_validator("jwt_secret")
    @classmethod
    def _long_secret(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and len(secret.get_secret_value().encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"a shared secret has at least {MIN_SECRET_BYTES} bytes: `openssl rand -base64 48`")
        return secret

    @field_validator("jwks_url")
    @classmethod
    def _safe_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme == "https" and parts.hostname:
            return url
        if parts.scheme == "http" and parts.hostname in _LOOPBACK:
            return url
        raise ValueError("an https:// URL (http:// on loopback alone): whoever can change the keys can be any user")

    @field_validator("jwks_algorithms")
    @classmethod
    def _asymmetric(cls, text: str) -> str:
        known = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"}
        named = listed(text)
        if not named or not set(named) <= known:
            raise ValueError(f"some of {', '.join(sorted(known))}, separated by commas")
        return text

    @field_validator("allowed_origins")
    @classmethod
    def _exact_origins(cls, text: str) -> str:
        for origin in listed(text):
            parts = urlsplit(origin)
            if parts.scheme not in {"https", "http"} or not parts.netloc or parts.path or "*" in origin:
                raise ValueError("exact origins like https://shop.example: no path, no wildcard")
        return text

    @model_validator(mode="after")
    def _one_key_source(self) -> "MeSettings":
        if (self.jwt_secret is None) == (self.jwks_url is None):
            raise ValueError("set exactly one of ULAK_ME_JWT_SECRET and ULAK_ME_JWKS_URL")
        return self

    @cached_property
    def origins(self) -> frozenset[str]:
        return frozenset(listed(self.allowed_origins))

    @cached_property
    def algorithms(self) -> frozenset[str]:
        return frozenset(listed(self.jwks_algorithms))
