import pytest
from pydantic import ValidationError

from services.relay.settings import RelaySettings, parse_horizons, parse_sources

A = "postgresql://shop:secret@db1:5432/shop"
B = "postgresql://billing@db2/billing"


@pytest.mark.parametrize(
    ("text", "dsns"),
    [
        pytest.param("", (), id="none"),
        pytest.param(A, (A,), id="one"),
        pytest.param(f"{A},{B}", (A, B), id="commas"),
        pytest.param(f" {A}\n{B}  ", (A, B), id="white-space"),
        pytest.param(f'["{A}", "{B}"]', (A, B), id="json"),
        pytest.param(f"{A} {A}", (A,), id="twice-is-once"),
    ],
)
def test_sources_are_read_in_each_form(text: str, dsns: tuple[str, ...]) -> None:
    assert parse_sources(text) == dsns


@pytest.mark.parametrize("text", ["mysql://db/shop", "shop", '["postgresql://a/b", 1]'])
def test_what_is_not_a_dsn_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="sources"):
        RelaySettings(sources=text)


def test_credentials_of_sources_do_not_show() -> None:
    assert "secret" not in repr(RelaySettings(sources=A))


@pytest.mark.parametrize("text", ["", "600,600", "3600,600", "0", "ten"])
def test_horizons_that_do_not_rise_are_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="sweep_horizons_sec"):
        RelaySettings(sweep_horizons_sec=text)


def test_horizons_are_whole_seconds() -> None:
    assert parse_horizons("600, 3600") == (600, 3600)
