"""What a newcomer types after the demo, and the shapes that scripts rely on."""

import json
import re

import pytest

from tests.e2e.stack import Stack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def test_send_and_why_tell_the_whole_way(stack: Stack) -> None:
    printed = stack.ulak(
        *("send", "--type", "ORDER_SHIPPED", "--user", "7", "--wait", "30"),
        *("--param", "orderNo=1", "--param", "carrier=Kargo A", "--param", "trackingUrl=https://kargo.example/1"),
    )
    match = re.search(r"ntf_[0-9a-z]{26}", printed)
    assert match is not None, printed
    told = stack.ulak("why", match.group())
    for word in ("PUSH", "EMAIL", "apns", "fcm", "smtp"):
        assert word in told
    assert "ayse@example.com" not in told


def test_env_has_the_keys_that_scripts_read(stack: Stack) -> None:
    assert {
        "ULAK_INGEST_URL",
        "ULAK_OTP_URL",
        "ULAK_CALLBACKS_URL",
        "ULAK_SIMULATOR_URL",
        "ULAK_SMTP_SINK",
        "ULAK_RELAY_SOURCES",
        "ULAK_API_KEY",
        "ULAK_POSTGRES_DSN",
        "ULAK_REDIS_URL",
        "ULAK_KAFKA_BOOTSTRAP_SERVERS",
    } <= set(stack.settings)


def test_status_has_the_shape_that_scripts_read(stack: Stack) -> None:
    status = json.loads(stack.ulak("dev", "status", "--json"))
    assert status["ready"] is True
    for process in status["processes"]:
        assert {"name", "kind", "pid", "state", "restarts", "log"} <= set(process)
        assert process["kind"] in {"service", "server", "simulator"}
