import pytest
from pydantic import ValidationError

from services.relay.settings import RelaySettings, parse_horizons
from shared.postgres.source import SourceSpec


@pytest.mark.parametrize("text", ["", "600,600", "3600,600", "0", "ten"])
def test_horizons_that_do_not_rise_are_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="sweep_horizons_sec"):
        RelaySettings(sweep_horizons_sec=text)


def test_horizons_are_whole_seconds() -> None:
    assert parse_horizons("600, 3600") == (600, 3600)


DSN = "postgresql://ulak@127.0.0.1/shop"


@pytest.mark.parametrize(
    ("spec", "listen", "poll_sec"),
    [
        pytest.param(SourceSpec("shop", DSN, "shop"), True, 2.0, id="heard"),
        pytest.param(SourceSpec("shop", DSN, "shop", pooled=True, listen_dsn=DSN), True, 2.0, id="heard-past-a-pooler"),
        pytest.param(SourceSpec("shop", DSN, "shop", pooled=True), True, 0.1, id="pooled"),
        pytest.param(SourceSpec("shop", DSN, "shop"), False, 0.1, id="not-listening"),
    ],
)
def test_an_outbox_is_polled_often_only_where_no_notify_is_heard(
    spec: SourceSpec, listen: bool, poll_sec: float
) -> None:
    assert RelaySettings(listen=listen).outbox_poll_sec(spec) == poll_sec
