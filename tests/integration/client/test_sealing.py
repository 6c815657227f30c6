"""What the client seals, Ulak opens; and nothing of it can be read in the row."""

from pathlib import Path

import orjson
import psycopg
import psycopg.rows
import pytest
from ulak_client import Email, Event, enqueue_email, enqueue_event
from ulak_client.sealing import KeyRing

from shared.core import sealing
from shared.core.sealing import Purpose, open_sealed
from shared.runtime.keyring import ring_json

pytestmark = pytest.mark.postgres

SECRETS = (b"ayse", b"zeynep", b"482913", b"Y\xc4\xb1lmaz")
MAIL = Email(
    to=["Ayşe Yılmaz <ayse@example.com>"],
    bcc=["zeynep@example.com"],
    template="LOGIN_CODE",
    parameters={"code": "482913"},
)


@pytest.fixture
def ring(key_ring: sealing.KeyRing, tmp_path: Path) -> KeyRing:
    """The client's, from the file that Ulak's own services read."""
    file = tmp_path / "ring.json"
    file.touch(mode=0o600)
    file.write_bytes(ring_json(key_ring))
    return KeyRing.from_file(file)


def test_a_sealed_email_opens_in_ulak_and_nothing_is_readable(
    service_database: str, ring: KeyRing, key_ring: sealing.KeyRing
) -> None:
    with psycopg.connect(service_database, row_factory=psycopg.rows.dict_row) as connection:
        id_ = enqueue_email(connection, MAIL, ring=ring)
        row = connection.execute("SELECT * FROM ulak.email_messages").fetchone()
        text = connection.execute("SELECT m::text AS text FROM ulak.email_messages m").fetchone()
    assert row is not None
    assert text is not None
    assert row["sealed"] is True
    for secret in SECRETS:
        assert secret not in row["recipients"] + row["parameters"]
        assert secret.hex() not in text["text"]
        assert secret.decode() not in text["text"]
    assert orjson.loads(open_sealed(key_ring, Purpose.OUTBOX, id_.bytes + b"recipients", row["recipients"])) == {
        "to": ["Ayşe Yılmaz <ayse@example.com>"],
        "cc": [],
        "bcc": ["zeynep@example.com"],
    }
    parameters = open_sealed(key_ring, Purpose.OUTBOX, id_.bytes + b"parameters", row["parameters"])
    assert orjson.loads(parameters) == {"code": "482913"}


def test_sealed_values_do_not_open_in_another_row_or_column(
    service_database: str, ring: KeyRing, key_ring: sealing.KeyRing
) -> None:
    with psycopg.connect(service_database) as connection:
        id_ = enqueue_email(connection, MAIL, ring=ring)
        other = enqueue_email(connection, MAIL, ring=ring)
        row = connection.execute("SELECT recipients FROM ulak.email_messages WHERE id = %s", (id_,)).fetchone()
    assert row is not None
    for identity in (other.bytes + b"recipients", id_.bytes + b"parameters"):
        with pytest.raises(sealing.TamperedError):
            open_sealed(key_ring, Purpose.OUTBOX, identity, row[0])


def test_a_sealed_event_opens_in_ulak(service_database: str, ring: KeyRing, key_ring: sealing.KeyRing) -> None:
    event = Event(id="login-1", source="/auth", type="LoginCode", data={"code": "482913"}, key="7")
    with psycopg.connect(service_database, row_factory=psycopg.rows.dict_row) as connection:
        enqueue_event(connection, event, ring=ring)
        row = connection.execute("SELECT id, key, payload, sealed FROM ulak.outbox").fetchone()
    assert row is not None
    assert (row["sealed"], row["key"]) == (True, b"7")
    assert b"482913" not in row["payload"]
    assert open_sealed(key_ring, Purpose.OUTBOX, row["id"].bytes, row["payload"]) == event.payload()
