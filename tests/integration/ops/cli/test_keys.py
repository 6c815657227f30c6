"""`ulak keys list --usage`, `reseal` and `retire` on real databases: no key goes while something needs it."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from typer.testing import CliRunner, Result

from ops.cli.errors import CommandError
from ops.cli.keys import app
from shared.core.address import parse_email, target_key
from shared.core.sealing import KeyRing, Purpose, open_sealed, seal
from shared.postgres.pool import Pool
from shared.postgres.recipient import DeviceProfile, RecipientProfile, push_recipients
from shared.postgres.sealed import count_sealed
from shared.runtime.keyring import read_ring, write_ring

pytestmark = pytest.mark.postgres

RING = KeyRing(active="k2", keys={"k1": bytes(range(32)), "k2": bytes(32)}, lookup_key=bytes(32))

NOTHING = dict.fromkeys(
    [
        *("recipients.email_sealed", "recipients.phone_sealed", "devices.token_sealed"),
        *("sender_profiles.dkim_key_sealed", "consents.address_sealed", "consents.evidence_sealed"),
        "suppressions.address_sealed",
    ],
    0,
)
"""What is sealed anew in place, and how much of it where there is nothing."""


class Operator:
    """Types `ulak keys` with a ring of two keys and Ulak's database."""

    def __init__(self, file: Path, database: str) -> None:
        self.file = file
        self.database = database
        self.sources = ""
        write_ring(file, RING)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "ULAK_POSTGRES_DSN": self.database,
            "ULAK_KEY_RING_FILE": str(self.file),
            "ULAK_RELAY_SOURCES": self.sources,
        }

    def types(self, *arguments: str, ends_with: int = 0) -> Result:
        result = CliRunner().invoke(app, list(arguments), env=self.environment, catch_exceptions=False)
        assert result.exit_code == ends_with, result.output
        return result


@pytest.fixture
def operator(tmp_path: Path, database: str) -> Operator:
    return Operator(tmp_path / "ring.json", database)


@pytest.fixture
def shop(postgres_server: str, template_database: str) -> Iterator[str]:
    """DSN of a service's database that the relay reads."""
    name = f"ulak_shop_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template_database}"'.encode())
        yield urlunsplit(urlsplit(postgres_server)._replace(path=f"/{name}"))
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def sealed(key_id: str) -> bytes:
    ring = KeyRing(active=key_id, keys={**RING.keys, "k9": bytes(32)}, lookup_key=bytes(32))
    return seal(ring, Purpose.ADDRESS, b"row", b"x")


def plant(dsn: str, *key_ids: str) -> None:
    """Recipients whose addresses are sealed under these keys."""
    with psycopg.connect(dsn) as connection:
        connection.cursor().executemany(
            b"INSERT INTO ulak.recipients (external_id, email_sealed) VALUES (%s, %s)",
            [(str(number), sealed(key_id)) for number, key_id in enumerate(key_ids)],
        )


def test_usage_tells_per_key_what_is_sealed_and_where(operator: Operator, database: str) -> None:
    plant(database, "k1", "k1", "k2", "k9")
    assert json.loads(operator.types("list", "--usage", "--json").stdout) == {
        "keys": [
            {"id": "k1", "state": "decrypt-only", "sealed": 2, "where": {"recipients.email_sealed": 2}},
            {"id": "k2", "state": "active", "sealed": 1, "where": {"recipients.email_sealed": 1}},
            {"id": "k9", "state": "not in the ring", "sealed": 1, "where": {"recipients.email_sealed": 1}},
        ],
        "unreadable": {},
    }
    assert "k1  decrypt-only  seals 2" in operator.types("list", "--usage").stdout


def test_a_key_that_still_opens_something_is_not_retired(operator: Operator, database: str) -> None:
    plant(database, "k1", "k2")
    with pytest.raises(CommandError, match=r"k1 still opens .*recipients\.email_sealed 1.*--force"):
        operator.types("retire", "k1")
    assert read_ring(operator.file) == RING


def test_nor_one_that_a_service_s_database_needs(operator: Operator, shop: str) -> None:
    operator.sources = json.dumps([{"name": "shop", "dsn": shop}])
    with psycopg.connect(shop) as connection:
        connection.execute(
            b"INSERT INTO ulak.outbox (message_class, topic, payload, sealed) VALUES (1, 't', %s, true)",
            (sealed("k1"),),
        )
    with pytest.raises(CommandError, match=r"shop: outbox\.payload 1"):
        operator.types("retire", "k1")
    with psycopg.connect(shop) as connection:
        connection.execute(b"DELETE FROM ulak.outbox")
    operator.types("retire", "k1")
    assert read_ring(operator.file).lost == {"k1"}


def test_a_key_that_nothing_needs_is_retired(operator: Operator, database: str) -> None:
    plant(database, "k2", "k2")
    answer = json.loads(operator.types("retire", "k1", "--json").stdout)
    assert answer == {"retired": "k1", "active": "k2", "file": str(operator.file)}
    ring = read_ring(operator.file)
    assert list(ring.keys) == ["k2"]
    assert ring.lost == {"k1"}
    assert ring.lookup_key == RING.lookup_key


def plant_addresses(dsn: str, count: int, ring: KeyRing) -> None:
    """Recipients whose addresses open."""
    keys = [target_key(ring, "EMAIL", f"a{number}@example.com") for number in range(count)]
    with psycopg.connect(dsn) as connection:
        connection.cursor().executemany(
            b"INSERT INTO ulak.recipients (external_id, email_key, email_sealed) VALUES (%s, %s, %s)",
            [(str(n), key, seal(ring, Purpose.ADDRESS, key, b"a@example.com")) for n, key in enumerate(keys)],
        )


def test_after_a_rotation_what_stays_is_sealed_anew_and_the_old_key_retired(operator: Operator, database: str) -> None:
    plant_addresses(database, 3, RING)
    operator.types("rotate", "--wait", "0")
    with pytest.raises(CommandError, match=r"k2 still opens .*`ulak keys reseal`"):
        operator.types("retire", "k2")
    told = operator.types("reseal").stdout
    assert "recipients.email_sealed  3 sealed anew under k3" in told
    assert "Left, for their rows go with their retention" in told
    assert "contents.sealed, deliveries.address_sealed, email_messages.parameters" in told
    operator.types("retire", "k2")
    operator.types("retire", "k1")
    ring = read_ring(operator.file)
    assert list(ring.keys) == ["k3"]
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT email_key, email_sealed FROM ulak.recipients").fetchall()
    assert [open_sealed(ring, Purpose.ADDRESS, key, value) for key, value in rows] == [b"a@example.com"] * 3


def test_what_does_not_open_is_named_by_its_table_and_ends_with_1(operator: Operator, database: str) -> None:
    plant(database, "k9", "k9")
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE ulak.recipients SET external_id = 'customer-' || external_id")
    answer = json.loads(operator.types("reseal", "--json", ends_with=1).stdout)
    assert (answer["active"], answer["resealed"], answer["changed"]) == ("k2", NOTHING, NOTHING)
    assert answer["shut"] == {**NOTHING, "recipients.email_sealed": 2}
    assert "notifications.params_sealed" in answer["left"]
    told = operator.types("reseal", ends_with=1).output
    assert "2 do not open" in told
    assert "ulak keys list --usage" in told
    assert "customer" not in told


def test_one_key_alone_is_sealed_anew(operator: Operator, database: str) -> None:
    operator.types("rotate", "--wait", "0")
    plant_addresses(database, 2, RING)
    assert json.loads(operator.types("reseal", "--key", "k1", "--json").stdout)["resealed"] == NOTHING
    assert "recipients.email_sealed  2 sealed anew under k3" in operator.types("reseal", "--key", "k2").stdout


@pytest.mark.parametrize(("key_id", "said"), [("k2", "k2 is the active key"), ("k9", r"no key 'k9'.*k1, k2")])
def test_a_key_that_nothing_can_be_sealed_anew_from_is_refused(operator: Operator, key_id: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        operator.types("reseal", "--key", key_id)


def test_it_seals_no_faster_than_asked(operator: Operator, database: str) -> None:
    plant_addresses(database, 30, replace(RING, active="k1"))
    began = time.monotonic()
    operator.types("reseal", "--rate", "20")
    assert time.monotonic() - began >= 1.5


def test_stopped_it_says_so_and_goes_on_when_it_is_run_again(operator: Operator, database: str) -> None:
    plant_addresses(database, 100, replace(RING, active="k1"))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN PERFORM pg_notify('step', ''); RETURN NULL; END$$"
        )
        connection.execute("CREATE TRIGGER tell AFTER UPDATE ON ulak.recipients EXECUTE FUNCTION tell()")
        connection.execute("LISTEN step")
        command = [sys.executable, "-m", "ops.cli", "keys", "reseal", "--rate", "10"]
        environment = {**os.environ, **operator.environment}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            assert list(connection.notifies(timeout=60, stop_after=1))  # its first step is committed
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "run `ulak keys reseal` again" in " ".join(told.split())
    left = 100 - json.loads(operator.types("list", "--usage", "--json").stdout)["keys"][1]["sealed"]
    assert 0 < left < 100
    assert f"recipients.email_sealed  {left} sealed anew" in operator.types("reseal").stdout
    operator.types("retire", "k1")


def test_without_its_database_nothing_is_sealed_anew(operator: Operator) -> None:
    operator.database = "postgresql://ulak:s3cret@127.0.0.1:1/ulak"
    with pytest.raises(CommandError, match=r"not reachable.*reseal` again") as caught:
        operator.types("reseal")
    assert "s3cret" not in str(caught.value)


async def test_users_that_are_pushed_again_need_the_old_key_no_more(pool: Pool) -> None:
    """Recipients and devices have no retention: this, or `reseal`, is what lets a key go."""
    email = parse_email("ada@example.com")
    profile = RecipientProfile("1", email=email, phone="+905301234567", devices=(DeviceProfile("token", "IOS"),))
    places = {"recipients.email_sealed": 1, "recipients.phone_sealed": 1, "devices.token_sealed": 1}
    for key_id in ("k1", "k2"):
        await push_recipients(pool, replace(RING, active=key_id), [profile])
        async with pool.acquire() as connection:
            assert (await count_sealed(connection)).by_key == {key_id: places}


def test_without_its_database_nothing_is_retired(operator: Operator) -> None:
    operator.database = "postgresql://ulak:s3cret@127.0.0.1:1/ulak"
    with pytest.raises(CommandError, match="not known what is still sealed") as caught:
        operator.types("retire", "k1")
    assert "s3cret" not in str(caught.value)
    assert read_ring(operator.file) == RING
