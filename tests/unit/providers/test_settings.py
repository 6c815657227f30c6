"""Settings that cannot work are refused with a remedy; a provider without any is merely not configured."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from shared.providers.email.smtp.settings import SmtpSettings
from shared.providers.push.apns.settings import ApnsSettings
from shared.providers.push.fcm.settings import FcmSettings
from shared.providers.registry import providers
from shared.providers.sms.twilio.settings import TwilioSettings


def test_registry_knows_the_built_in_providers() -> None:
    found = providers()
    assert {name: provider.channel for name, provider in found.items()} == {
        "smtp": "EMAIL",
        "apns": "PUSH",
        "fcm": "PUSH",
        "twilio": "SMS",
    }
    assert found["apns"].platforms == {"IOS"}
    assert found["fcm"].platforms == {"ANDROID", "WEB"}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (SmtpSettings, "host"),
        (ApnsSettings, "key_file"),
        (FcmSettings, "service_account_file"),
        (TwilioSettings, "account_sid"),
    ],
)
def test_without_settings_not_configured(settings: type[Any], name: str) -> None:
    assert not settings(**{name: None}).configured


@pytest.mark.parametrize(
    ("settings", "values", "remedy"),
    [
        (SmtpSettings, {"host": "mx"}, "ULAK_SMTP_FROM_ADDRESS is missing"),
        (SmtpSettings, {"host": "mx", "from_address": "nobody"}, "not an e-mail address"),
        (SmtpSettings, {"host": "mx", "from_address": "a@b.example", "username": "u"}, "ULAK_SMTP_PASSWORD together"),
        (
            SmtpSettings,
            {
                "host": "mx",
                "from_address": "a@b.example",
                "username": "u",
                "password": SecretStr("p"),
                "security": "none",
            },
            "in clear",
        ),
        (ApnsSettings, {"key_file": Path("/nowhere")}, "ULAK_APNS_KEY_ID is missing"),
        (FcmSettings, {"service_account_file": Path("/nowhere")}, "names no file"),
        (TwilioSettings, {"account_sid": "AC" + "0" * 32}, "ULAK_TWILIO_AUTH_TOKEN is missing"),
        (TwilioSettings, {"account_sid": "AC" + "0" * 32, "auth_token": SecretStr("t")}, "set one of"),
        (
            TwilioSettings,
            {
                "account_sid": "AC" + "0" * 32,
                "auth_token": SecretStr("t"),
                "from_number": "+12025550123",
                "messaging_service_sid": "MG1",
            },
            "set one of",
        ),
    ],
)
def test_half_a_configuration_says_what_is_missing(settings: type[Any], values: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ValidationError, match=remedy):
        settings(**values)


def test_secrets_are_shown_nowhere() -> None:
    settings = TwilioSettings(
        account_sid="AC" + "0" * 32, auth_token=SecretStr("hush-hush"), from_number="+12025550123"
    )
    assert "hush-hush" not in repr(settings)
