"""The relay's list of sources, in each form it may be written."""

import orjson
import pytest
from pydantic import ValidationError

from shared.postgres.settings import SourceSettings
from shared.postgres.source import SourceSpec, parse_sources

A = "postgresql://shop:s3cret@db1:5432/shop"
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
def test_dsns_alone_are_named_by_their_place(text: str, dsns: tuple[str, ...]) -> None:
    assert tuple(spec.dsn for spec in parse_sources(text)) == dsns
    assert {spec.name for spec in parse_sources(text)} <= {"db1:5432/shop", "db2:5432/billing"}


def test_an_object_says_what_else_holds_for_a_source() -> None:
    entry = {
        "name": "shop",
        "dsn": A,
        "application": "webshop",
        "poolSize": 3,
        "batch": 200,
        "pooled": True,
        "listenDsn": B,
        "emailModelA": False,
    }
    (spec,) = parse_sources(orjson.dumps([entry]).decode())

    assert spec == SourceSpec("shop", A, "webshop", 3, 200, pooled=True, listen_dsn=B, email_model_a=False)
    assert spec.direct_dsn == B


def test_what_an_object_leaves_out_has_its_default() -> None:
    (spec,) = parse_sources(f'[{{"name": "shop", "dsn": "{A}"}}]')

    assert spec == SourceSpec("shop", A, "shop")
    assert spec.direct_dsn == A
    assert SourceSpec("shop", A, "shop", pooled=True).direct_dsn is None


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        pytest.param("mysql://db/s3cret", "is a DSN like", id="another-database"),
        pytest.param("s3cret", "is a DSN like", id="no-url"),
        pytest.param(f'["{A}", 1]', "is a DSN or an object like", id="a-number"),
        pytest.param(f'["{A}"', "is not JSON", id="cut-short"),
        pytest.param(f'[{{"dsn": "{A}"}}]', "is a DSN or an object like", id="no-name"),
        pytest.param(f'[{{"name": "shop", "dsn": "{A}", "pool": 3}}]', "there is no field 'pool'", id="unknown-field"),
        pytest.param(f'[{{"name": "shop", "dsn": "{A}", "poolSize": "3"}}]', "whole number", id="a-text"),
        pytest.param(f'[{{"name": "shop", "dsn": "{A}", "poolSize": true}}]', "whole number", id="a-bool"),
        pytest.param(f'[{{"name": "shop", "dsn": "{A}", "batch": 0}}]', "from 1 to 10000", id="no-rows"),
        pytest.param(f'[{{"name": "shop", "dsn": "{A}", "application": ""}}]', "application", id="no-application"),
        pytest.param(f'[{{"name": "shop", "dsn": "{A}", "listenDsn": "{B}"}}]', "pooled", id="two-direct-ones"),
        pytest.param(f'[{{"name": "", "dsn": "{A}"}}]', "printable", id="empty-name"),
        pytest.param(f'[{{"name": "own", "dsn": "{A}"}}]', "Ulak's own", id="ours"),
        pytest.param(f'[{{"name": "x", "dsn": "{A}"}}, {{"name": "x", "dsn": "{B}"}}]', "two sources", id="same-name"),
    ],
)
def test_what_is_wrong_is_refused_with_the_remedy_and_without_the_password(text: str, remedy: str) -> None:
    with pytest.raises(ValidationError, match=remedy) as caught:
        SourceSettings(sources=text)
    assert "s3cret" not in str(caught.value)


def test_passwords_do_not_show() -> None:
    assert "s3cret" not in repr(SourceSettings(sources=A))
    assert "s3cret" not in repr(parse_sources(A))
