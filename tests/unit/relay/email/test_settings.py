from pathlib import Path

import pytest
from pydantic import ValidationError

from services.relay.email.settings import ModelASettings
from shared.core.retry import DOUBLING, STEPS


def test_defaults_are_seed_001s_with_a_lease_of_two_minutes() -> None:
    settings = ModelASettings()
    assert (settings.poll_sec, settings.batch, settings.lease_sec, settings.keep_days) == (2.0, 20, 120.0, 90)
    assert settings.backoff_policy is DOUBLING
    assert ModelASettings(backoff="steps").backoff_policy is STEPS
    assert ModelASettings(lease_sec=300).lease_sec == 300


@pytest.mark.parametrize(
    ("lease_sec", "deadline_sec", "fits"),
    [(20.9, 20, False), (21, 20, True), (60, 120, False), (300, 120, True)],
)
def test_a_lease_outlasts_a_send(lease_sec: float, deadline_sec: float, fits: bool) -> None:
    if fits:
        ModelASettings(lease_sec=lease_sec, send_deadline_sec=deadline_sec)
    else:
        with pytest.raises(ValidationError, match="ULAK_RELAY_EMAIL_LEASE_SEC"):
            ModelASettings(lease_sec=lease_sec, send_deadline_sec=deadline_sec)


@pytest.mark.parametrize(
    ("text", "folder"),
    [("", None), ("table", None), ("/var/lib/ulak/archive", Path("/var/lib/ulak/archive"))],
)
def test_archive_is_nowhere_a_table_or_a_folder(text: str, folder: Path | None) -> None:
    assert ModelASettings(archive=text).archive_folder == folder


@pytest.mark.parametrize("text", ["tabel", "./archive", "s3://bucket"])
def test_another_archive_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="archive"):
        ModelASettings(archive=text)
