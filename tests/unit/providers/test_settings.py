"""Settings that cannot work are refused with a remedy; a provider without any is merely not configured."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from shared.providers.email.mailgun.settings import MailgunSettings
from shared.providers.email.sendgrid.settings import SendgridSettings
from shared.providers.email.ses.settings import SesSettings
from shared.providers.email.smtp.settings import SmtpSettings
from shared.providers.push.apns.settings import ApnsSettings
from shared.providers.push.fcm.settings import FcmSettings
from shared.providers.push.webpush.settings import WebPushSettings
from shared.providers.registry import providers
from shared.providers.sms.netgsm.settings import NetgsmSettings
from shared.providers.sms.twilio.settings import TwilioSettings
from shared.providers.sms.vonage.settings import VonageSettings


def test_registry_knows_the_built_in_providers() -> None:
    found = providers()
    assert {name: provider.channel for name, provider in found.items()} == {
        "smtp": "EMAIL",
        "ses": "EMAIL",
        "sendgrid": "EMAIL",
        "mailgun": "EMAIL",
        "apns": "PUSH",
        "fcm": "PUSH",
        "webpush": "PUSH",
        "twilio": "SMS",
        "vonage": "SMS",
        "netgsm": "SMS",
    }
    assert found["apns"].platforms == {"IOS"}
    assert found["fcm"].platforms == {"ANDROID", "WEB"}
    assert found["webpush"].platforms == {"WEBPUSH"}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (SmtpSettings, "host"),
        (SesSettings, "region"),
        (SendgridSettings, "api_key"),
        (MailgunSettings, "domain"),
        (ApnsSettings, "key_file"),
        (FcmSettings, "service_account_file"),
        (WebPushSettings, "vapid_key_file"),
        (TwilioSettings, "account_sid"),
        (VonageSettings, "api_key"),
        (NetgsmSettings, "usercode"),
    ],
)
def test_without_settings_not_configured(settings: type[Any], name: str) -> None:
    assert not settings(**{name: None}).configured


@pytest.mark.parametrize(
    ("settings", "values", "remedy"),
    [
        (SmtpSettings, {"host": "mx"}, "ULAK_SMTP_FROM_ADDRESS is missing"),
        (SmtpSettings, {"host": "mx", "from_address": "nobody"}, "not an e-mail address"),
        (
            SmtpSettings,
            {"host": "mx", "from_address": "a@b.example", "from_name": "Shop\u202e"},
            "holds U.202E",
        ),
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
        (
            SmtpSettings,
            {
                "host": "mx",
                "from_address": "a@b.example",
                "username": "u",
                "password": SecretStr("p"),
                "security": "opportunistic",
            },
            "in clear",
        ),
        (SesSettings, {"region": "eu-central-1"}, "ULAK_SES_FROM_ADDRESS is missing"),
        (
            SesSettings,
            {"region": "eu-central-1", "from_address": "a@b.example", "access_key_id": "AKIA"},
            "ULAK_SES_SECRET_ACCESS_KEY together",
        ),
        (SendgridSettings, {"api_key": SecretStr("k")}, "ULAK_SENDGRID_FROM_ADDRESS is missing"),
        (MailgunSettings, {"domain": "b.example"}, "ULAK_MAILGUN_API_KEY is missing"),
        (MailgunSettings, {"domain": "b.example", "api_key": SecretStr("k")}, "ULAK_MAILGUN_FROM_ADDRESS is missing"),
        (ApnsSettings, {"key_file": Path("/nowhere")}, "ULAK_APNS_KEY_ID is missing"),
        (FcmSettings, {"service_account_file": Path("/nowhere")}, "names no file"),
        (WebPushSettings, {"vapid_key_file": Path("/nowhere")}, "VAPID_KEY_FILE names no file"),
        (WebPushSettings, {"vapid_key_file": Path(__file__)}, "ULAK_WEBPUSH_VAPID_SUBJECT is missing"),
        (WebPushSettings, {"vapid_subject": "ops@shop.example"}, "should match pattern"),
        (TwilioSettings, {"account_sid": "AC" + "0" * 32}, "ULAK_TWILIO_AUTH_TOKEN is missing"),
        (VonageSettings, {"api_key": "abcd1234"}, "ULAK_VONAGE_API_SECRET is missing"),
        (VonageSettings, {"api_key": "abcd1234", "api_secret": SecretStr("s")}, "ULAK_VONAGE_SENDER_ID is missing"),
        (NetgsmSettings, {"usercode": "8500000000"}, "ULAK_NETGSM_PASSWORD is missing"),
        (NetgsmSettings, {"usercode": "8500000000", "password": SecretStr("p")}, "ULAK_NETGSM_MSGHEADER is missing"),
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


def test_secret_is_read_from_the_file_that_is_named_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hush-hush\n", encoding="utf-8")
    settings = TwilioSettings(account_sid="AC" + "0" * 32, auth_token_file=file, from_number="+12025550123")
    assert settings.auth_token == SecretStr("hush-hush")
    assert "hush-hush" not in repr(settings)


def test_secret_file_is_named_in_the_environment_as_the_secret_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text("SG.hush", encoding="utf-8")
    monkeypatch.setenv("ULAK_SENDGRID_API_KEY_FILE", str(file))
    monkeypatch.setenv("ULAK_SENDGRID_FROM_ADDRESS", "no-reply@shop.example")
    assert SendgridSettings().api_key == SecretStr("SG.hush")
    monkeypatch.setenv("ULAK_SENDGRID_API_KEY", "SG.other")
    with pytest.raises(ValidationError, match="ULAK_SENDGRID_API_KEY and ULAK_SENDGRID_API_KEY_FILE are both set"):
        SendgridSettings()


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ({"auth_token_file": Path("/nowhere")}, "ULAK_TWILIO_AUTH_TOKEN_FILE names no file that can be read"),
        ({"auth_token_file": Path("/nowhere"), "auth_token": SecretStr("t")}, "both set: unset one"),
    ],
)
def test_secret_file_that_cannot_count_says_so(values: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ValidationError, match=remedy):
        TwilioSettings(account_sid="AC" + "0" * 32, from_number="+12025550123", **values)


@pytest.mark.parametrize(
    ("settings", "endpoint"),
    [
        (SesSettings(region="eu-central-1", from_address="a@b.example"), "https://email.eu-central-1.amazonaws.com"),
        (SendgridSettings(api_key=SecretStr("k"), from_address="a@b.example"), "https://api.sendgrid.com"),
        (
            SendgridSettings(api_key=SecretStr("k"), from_address="a@b.example", region="eu"),
            "https://api.eu.sendgrid.com",
        ),
        (
            MailgunSettings(domain="b.example", api_key=SecretStr("k"), from_address="a@b.example"),
            "https://api.mailgun.net",
        ),
        (
            MailgunSettings(domain="b.example", api_key=SecretStr("k"), from_address="a@b.example", region="eu"),
            "https://api.eu.mailgun.net",
        ),
    ],
)
def test_region_says_where_a_vendors_api_is(settings: Any, endpoint: str) -> None:
    assert settings.endpoint == endpoint
