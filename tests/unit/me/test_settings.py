"""Settings that would let somebody in are refused at the start."""

from typing import Any

import pytest
from pydantic import ValidationError

from services.me.settings import MeSettings

GOOD: dict[str, Any] = {"jwt_secret": "s" * 32, "jwt_issuer": "https://id.example", "jwt_audience": "ulak"}
JWKS = {**GOOD, "jwt_secret": None, "jwks_url": "https://id.example/jwks"}


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(GOOD | {"jwt_secret": "s" * 31}, id="short-secret"),
        pytest.param(GOOD | {"jwt_secret": None}, id="no-key-source"),
        pytest.param(GOOD | {"jwks_url": "https://id.example/jwks"}, id="two-key-sources"),
        pytest.param(JWKS | {"jwks_url": "http://id.example/jwks"}, id="jwks-without-tls"),
        pytest.param(JWKS | {"jwks_url": "http://localhost.evil.example/jwks"}, id="looks-like-loopback"),
        pytest.param(JWKS | {"jwks_url": "file:///etc/passwd"}, id="file"),
        pytest.param(JWKS | {"jwks_algorithms": "HS256"}, id="symmetric-with-jwks"),
        pytest.param(JWKS | {"jwks_algorithms": "RS256,none"}, id="none"),
        pytest.param(JWKS | {"jwks_algorithms": ""}, id="no-algorithm"),
        pytest.param(GOOD | {"jwt_issuer": ""}, id="any-issuer"),
        pytest.param(GOOD | {"jwt_audience": ""}, id="any-audience"),
        pytest.param(GOOD | {"allowed_origins": "*"}, id="any-origin"),
        pytest.param(GOOD | {"allowed_origins": "https://*.example"}, id="wildcard"),
        pytest.param(GOOD | {"allowed_origins": "https://shop.example/"}, id="origin-with-path"),
        pytest.param(GOOD | {"allowed_origins": "null"}, id="null-origin"),
    ],
)
def test_unsafe_settings_are_refused_without_telling_the_secret(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refusal:
        MeSettings.model_validate(values)
    assert "sssss" not in str(refusal.value)


def test_what_is_listed_is_read() -> None:
    settings = MeSettings.model_validate(
        JWKS | {"allowed_origins": "https://shop.example, http://localhost:3000", "jwks_algorithms": "ES256 EdDSA"}
    )
    assert settings.origins == {"https://shop.example", "http://localhost:3000"}
    assert settings.algorithms == {"ES256", "EdDSA"}


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/jwks", "http://[::1]:8000/jwks", "https://id.example/jwks"])
def test_a_key_set_is_read_over_tls_or_on_this_machine(url: str) -> None:
    assert MeSettings.model_validate(JWKS | {"jwks_url": url}).jwks_url == url


def test_the_secret_is_in_no_representation() -> None:
    assert "sssss" not in repr(MeSettings.model_validate(GOOD))
