"""`ulak provider list`, `drain` and `enable` on a real database and Redis; fixtures: database, redis_url."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from redis.asyncio import Redis
from typer.testing import CliRunner

from ops.cli.errors import CommandError
from ops.cli.main import build
from shared.core.breaker import Mark, Phase, Policy, Run, Switch
from shared.postgres.pool import Pool
from shared.postgres.provider import ProviderEvents
from shared.redis_store.breaker import BreakerScript, Guarded
from shared.wire.channel import MessageClass

pytestmark = [pytest.mark.postgres, pytest.mark.redis]


class Operator:
    """Types what one would at night."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    def types(self, *arguments: str) -> str:
        result = CliRunner().invoke(build("provider"), ["provider", *arguments], env=self.environment)
        if isinstance(result.exception, CommandError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    def listed(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.types("list", "--json"))
        return found

    def provider(self, name: str) -> dict[str, Any]:
        (found,) = (each for each in self.listed()["providers"] if each["name"] == name)
        return dict(found)


@pytest.fixture
def operator(database: str, redis_url: str, key_prefix: str) -> Operator:
    return Operator(
        {
            "ULAK_POSTGRES_DSN": database,
            "ULAK_REDIS_URL": redis_url,
            "ULAK_REDIS_KEY_PREFIX": key_prefix,
            "COLUMNS": "400",
        }
    )


def opened(redis_url: str, key_prefix: str, guarded: Guarded) -> None:
    async def fail() -> None:
        redis = Redis.from_url(redis_url)
        script = BreakerScript(redis, key_prefix, Policy())
        await script.observe(guarded, since=0, seen=[Run(Mark.FAILED, 10)], detail="503")
        await redis.aclose()

    asyncio.run(fail())


def test_drain_and_enable_are_told_with_who_and_why_and_audited(operator: Operator, database: str) -> None:
    assert operator.provider("twilio") == {"name": "twilio", "channel": "SMS", "state": "enabled", "breakers": []}
    assert "ulak provider enable twilio" in operator.types("drain", "twilio", "--reason", "contract ends")
    assert "was drained already" in operator.types("drain", "twilio", "--reason", "again")
    drained = operator.provider("twilio")
    assert (drained["state"], drained["reason"]) == ("drained", "contract ends")
    assert drained["by"].startswith("operator")
    assert "drained since" in operator.types("list")
    assert "no longer drained" in operator.types("enable", "twilio", "--reason", "new contract")
    assert "was not drained" in operator.types("enable", "twilio")
    assert operator.provider("twilio")["state"] == "enabled"
    events = [(each["provider"], each["from"], each["to"], each["reason"]) for each in operator.listed()["events"]]
    assert events == [
        ("twilio", "drained", "enabled", "new contract"),
        ("twilio", "enabled", "drained", "contract ends"),
    ]
    with psycopg.connect(database) as connection:
        audited = connection.execute("SELECT action, kind, key FROM ulak.audit_log ORDER BY id").fetchall()
    assert audited == [("drained", "provider", "twilio"), ("enabled", "provider", "twilio")]


def test_pause_of_an_account_is_shown_too(operator: Operator) -> None:
    result = CliRunner().invoke(
        build("pause"), ["pause", "provider", "twilio", "--reason", "wrong sender"], env=operator.environment
    )
    assert result.exit_code == 0, result.output
    assert operator.provider("twilio")["state"] == "paused"


def test_open_breaker_is_shown_and_tried_at_once_after_enable(
    operator: Operator, redis_url: str, key_prefix: str
) -> None:
    opened(redis_url, key_prefix, Guarded("twilio", MessageClass.TX))
    (breaker,) = operator.provider("twilio")["breakers"]
    assert (breaker["class"], breaker["phase"]) == ("tx", "open")
    assert breaker["reason"] == "10 failures in a row, the last: 503"
    assert "tx open since" in operator.types("list")
    assert "Its breakers for tx were open and are tried at once." in operator.types("enable", "twilio")

    async def allowed() -> int:
        redis = Redis.from_url(redis_url)
        script = BreakerScript(redis, key_prefix, Policy())
        _, granted, _ = await script.allow(Guarded("twilio", MessageClass.TX), wanted=9, urgent=False)
        await redis.aclose()
        return granted

    assert asyncio.run(allowed()) == 5


def test_without_redis_the_rest_is_told(operator: Operator) -> None:
    away = Operator({**operator.environment, "ULAK_REDIS_URL": "redis://127.0.0.1:1/0"})
    assert away.provider("twilio")["breakers"] is None
    assert "Redis cannot be asked" in away.types("list")
    assert "Redis cannot be asked" in away.types("enable", "twilio")


def test_unknown_provider_is_refused_with_the_list(operator: Operator) -> None:
    with pytest.raises(CommandError, match=r"There is no provider 'twillio'. There are .*twilio"):
        operator.types("drain", "twillio", "--reason", "x")


def test_reason_is_asked_for(operator: Operator) -> None:
    with pytest.raises(CommandError, match="--reason"):
        operator.types("drain", "twilio", "--reason", " ")


async def test_switch_of_a_breaker_becomes_an_event(pool: Pool) -> None:
    switch = Switch(Phase.CLOSED, Phase.OPEN, "10 failures in a row, the last: 503")
    await ProviderEvents(pool)("twilio", MessageClass.BULK, switch)
    row = await pool.fetchrow(
        "SELECT account, message_class, from_state, to_state, reason, actor FROM ulak.provider_events"
    )
    assert row is not None
    assert tuple(row) == ("twilio", 2, "closed", "open", "10 failures in a row, the last: 503", None)
    await pool.close()
    await ProviderEvents(pool)("twilio", MessageClass.BULK, switch)  # lost, and nothing else with it
