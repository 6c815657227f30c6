"""Migrations: from nothing, twice, two at once, on a newer schema, on a server that is not there."""

import subprocess
import sys
import threading
from datetime import date

import psycopg
import pytest

from shared.postgres.errors import UnavailableError
from shared.postgres.migrate import _LOCK_KEY, migrate
from shared.postgres.schema import head_revision

pytestmark = pytest.mark.postgres

TODAY = date(2026, 1, 15)


def partition_names(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'").fetchall()
    return {name for (name,) in rows if not name.startswith("provider_messages")}


def test_from_nothing_to_the_head_with_partitions(empty_database: str) -> None:
    done = migrate(empty_database, today=TODAY, ahead=2, days_back=1)
    assert (done.before, done.after) == (None, head_revision())
    assert set(done.partitions) == partition_names(empty_database)
    assert {name for name in done.partitions if name.startswith("deliveries")} == {
        "deliveries_20260114", "deliveries_20260115", "deliveries_20260116", "deliveries_20260117"
    }  # fmt: skip
    with psycopg.connect(empty_database) as connection:
        outside = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        ).fetchone()
    assert outside == (0,)


def test_twice_is_a_no_op(empty_database: str) -> None:
    migrate(empty_database, today=TODAY)
    before = partition_names(empty_database)
    done = migrate(empty_database, today=TODAY)
    assert (done.before, done.after, done.partitions) == (head_revision(), head_revision(), ())
    assert partition_names(empty_database) == before


def test_days_back_are_added_later(empty_database: str) -> None:
    migrate(empty_database, today=TODAY, ahead=0, days_back=0)
    done = migrate(empty_database, today=TODAY, ahead=0, days_back=2)
    assert len(done.partitions) == 8


def test_two_processes_at_once_both_succeed(empty_database: str) -> None:
    program = "import sys; from shared.postgres.migrate import migrate; migrate(sys.argv[1], say=print)"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", program, empty_database], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outcomes = [(*racer.communicate(timeout=120), racer.returncode) for racer in racers]
    assert [code for _, _, code in outcomes] == [0, 0], outcomes
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT version_num FROM ulak.alembic_version").fetchall() == [(head_revision(),)]


def test_the_one_that_waits_says_so_and_then_finds_nothing_to_do(empty_database: str) -> None:
    migrate(empty_database, today=TODAY)
    said: list[str] = []
    told = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        told.set()

    with psycopg.connect(empty_database, autocommit=True) as other:
        other.execute(f"SELECT pg_advisory_lock({_LOCK_KEY})".encode())
        waiting = threading.Thread(target=migrate, args=(empty_database,), kwargs={"say": say, "today": TODAY})
        waiting.start()
        assert told.wait(20)
        # It must not hold a snapshot meanwhile, or a CREATE INDEX CONCURRENTLY of the other would wait for it for ever.
        assert other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ulak migrate' AND wait_event_type = 'Lock'"
        ).fetchone() == (0,)
        other.execute(f"SELECT pg_advisory_unlock({_LOCK_KEY})".encode())
        waiting.join(20)
    assert not waiting.is_alive()
    assert said == ["Another migration is running: waiting for it."]


def test_a_newer_schema_is_left_as_it_is(empty_database: str) -> None:
    """Rolling a release back must not fail in its migration step."""
    migrate(empty_database, today=TODAY)
    with psycopg.connect(empty_database) as connection:
        connection.execute("UPDATE ulak.alembic_version SET version_num = '9999'")
    said: list[str] = []
    done = migrate(empty_database, today=TODAY, ahead=8, say=said.append)
    assert (done.before, done.after, len(done.partitions)) == ("9999", "9999", 4)
    assert "newer than this release" in said[0]


async def test_inside_a_running_loop(empty_database: str) -> None:
    assert migrate(empty_database, today=TODAY).after == head_revision()


@pytest.mark.parametrize(
    "dsn", ["postgresql://ulak:s3cret@127.0.0.1:1/ulak", "postgresql://ulak:s3cret@no-such-host.invalid/ulak"]
)
def test_a_server_that_is_not_there_is_named_without_the_password(dsn: str) -> None:
    with pytest.raises(UnavailableError, match="ULAK_POSTGRES_DSN") as caught:
        migrate(dsn)
    assert "s3cret" not in str(caught.value)


def test_a_failed_revision_leaves_nothing_behind(empty_database: str) -> None:
    from shared.postgres.errors import MigrationError

    with psycopg.connect(empty_database) as connection:  # what the first revision will stumble over, near its end
        connection.execute("CREATE SCHEMA ulak")
        connection.execute("CREATE TABLE ulak.sweep_progress (x int)")
    with pytest.raises(MigrationError, match="sweep_progress"):
        migrate(empty_database, today=TODAY)
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT to_regclass('ulak.notifications')").fetchone() == (None,)
        connection.execute("DROP TABLE ulak.sweep_progress")
        connection.commit()
    assert migrate(empty_database, today=TODAY).after == head_revision()
