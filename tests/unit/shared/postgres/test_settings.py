"""The DSN is checked early and never shown."""

import pytest
from pydantic import ValidationError

from shared.postgres.dsn import shown
from shared.postgres.settings import PostgresSettings


def test_repr_and_errors_hide_the_password() -> None:
    assert "s3cret" not in repr(PostgresSettings(dsn="postgresql://ulak:s3cret@db/ulak"))
    with pytest.raises(ValidationError) as caught:
        PostgresSettings(dsn="mysql://ulak:s3cret@db/ulak")
    assert "s3cret" not in str(caught.value)
    assert "postgresql://user:password@host" in str(caught.value)


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        ("postgresql://ulak:s3cret@db.internal:6432/ulak", "db.internal:6432/ulak"),
        ("postgres://ulak@db/ulak?sslmode=require", "db:5432/ulak"),
        ("postgresql:///ulak?host=/run/postgresql", "local socket:5432/ulak"),
        ("postgresql://ulak:s3cret@db:notaport/ulak", "the server of ULAK_POSTGRES_DSN"),
    ],
)
def test_shown_is_the_place_alone(dsn: str, place: str) -> None:
    assert shown(dsn) == place
