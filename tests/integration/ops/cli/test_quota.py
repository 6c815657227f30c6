"""`ulak quota` against a real database and Redis: shown, set, heard of by who takes tokens, unset."""

import asyncio
import json
import secrets
from typing import Any

import psycopg
import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from ops.cli.errors import CommandError
from ops.cli.main import build
from shared.postgres.control_watch import watching
from shared.postgres.pool import open_pool
from shared.postgres.settings import PostgresSettings
from shared.redis_store.quota import LiveQuotas
from shared.redis_store.token_bucket import Quota

pytestmark = [pytest.mark.postgres, pytest.mark.redis]


class Operator:
    """Types `ulak quota`, where Twilio's settings allow 500 a second, 150 of them for codes."""

    def __init__(self, database: str, redis_url: str) -> None:
        self.prefix = f"t{secrets.token_hex(4)}:"
        self.environment = {
            "ULAK_POSTGRES_DSN": database,
            "ULAK_REDIS_URL": redis_url,
            "ULAK_REDIS_KEY_PREFIX": self.prefix,
            "ULAK_TWILIO_QUOTA_PER_SECOND": "500",
            "ULAK_TWILIO_QUOTA_RESERVE_PER_SECOND": "150",
            "COLUMNS": "300",
        }

    def types(self, *arguments: str, ends_with: int = 0) -> Result:
        result = CliRunner().invoke(build("quota"), ["quota", *arguments], env=self.environment)
        if isinstance(result.exception, CommandError):
            raise result.exception
        assert result.exit_code == ends_with, result.output
        return result

    def shown(self, account: str) -> dict[str, Any]:
        found = json.loads(self.types("show", "--json").output)["quotas"]
        return next(dict(each) for each in found if each["account"] == account)


@pytest.fixture
def operator(database: str, redis_url: str) -> Operator:
    return Operator(database, redis_url)


def test_set_shown_and_unset(operator: Operator, database: str) -> None:
    assert operator.shown("twilio") == {
        "account": "twilio",
        "perSecond": 500.0,
        "reservePerSecond": 150.0,
        "source": "settings",
        "drainedSec": 0.0,
    }
    assert operator.shown("smtp")["perSecond"] is None
    operator.types("set", "twilio", "--per-second", "100")
    shown = operator.shown("twilio")
    assert (shown["perSecond"], shown["reservePerSecond"], shown["source"]) == (100.0, 30.0, "operator")
    operator.types("set", "twilio", "--reserve", "50")
    assert operator.shown("twilio")["reservePerSecond"] == 50.0
    assert "100" in operator.types("show").output
    operator.types("unset", "twilio")
    assert operator.shown("twilio")["perSecond"] == 500.0
    assert json.loads(operator.types("unset", "twilio", "--json").output) == {"account": "twilio", "wasSet": False}
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT action, kind, key FROM ulak.audit_log ORDER BY id").fetchall()
    assert rows == [("updated", "quota", "twilio")] * 2 + [("deleted", "quota", "twilio")]


def test_what_a_provider_has_asked_for_is_shown(operator: Operator, redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis:
        redis.set(f"{operator.prefix}quota:{{twilio}}:drain", b"1", px=60_000)
    assert 50 < operator.shown("twilio")["drainedSec"] <= 60
    assert "s" in operator.types("show").output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("set", "twillio", "--per-second", "1"), "there are apns"),
        (("unset", "twillio"), "there are apns"),
        (("set", "twilio"), "--per-second, --reserve or both"),
        (("set", "twilio", "--reserve", "500"), "below the 500 messages"),
        (("set", "twilio", "--per-second", "100", "--reserve", "100"), "below the 100 messages"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(operator: Operator, arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        operator.types(*arguments)
    assert operator.shown("twilio")["source"] == "settings"


def test_without_redis_the_quotas_are_shown_all_the_same(operator: Operator) -> None:
    operator.environment["ULAK_REDIS_URL"] = "redis://127.0.0.1:1/0"
    shown = operator.shown("twilio")
    assert (shown["perSecond"], shown["drainedSec"]) == (500.0, None)


def test_a_running_worker_hears_of_it(operator: Operator, database: str) -> None:
    async def heard() -> Quota:
        async with (
            open_pool(PostgresSettings(dsn=database), name="test", size=2) as pool,
            watching(pool, poll_sec=0.05) as watch,
        ):
            live = LiveQuotas({"twilio": Quota("twilio", 500.0, 150.0)}, lambda: watch.current)
            assert live["twilio"].per_second == 500.0
            await asyncio.to_thread(operator.types, "set", "twilio", "--per-second", "100")
            async with asyncio.timeout(60):
                while live["twilio"].per_second == 500.0:  # noqa: ASYNC110  the watch tells nobody
                    await asyncio.sleep(0.02)
            return live["twilio"]

    assert asyncio.run(heard()) == Quota("twilio", 100.0, 30.0)
