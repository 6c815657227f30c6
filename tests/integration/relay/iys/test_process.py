"""The sync in the relay's own process, and kill -9 between the registry's word and our record; fixture: registry."""

import asyncio
import signal
from pathlib import Path

import pytest

from shared.kafka.settings import KafkaSettings
from shared.runtime.keyring import ring_json
from tests.integration.relay.iys.conftest import Registry
from tests.integration.relay.process import relay

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

WITHIN_SEC = 60.0


def environment(registry: Registry) -> dict[str, str]:
    password = registry.settings.password
    assert password is not None
    return {
        "ULAK_KEY_RING": ring_json(registry.ring).decode(),
        "ULAK_IYS_BASE_URL": registry.settings.base_url,
        "ULAK_IYS_USERNAME": str(registry.settings.username),
        "ULAK_IYS_PASSWORD": password.get_secret_value(),
        "ULAK_IYS_CODE": str(registry.settings.code),
        "ULAK_IYS_BRAND_CODE": str(registry.settings.brand_code),
        "ULAK_IYS_POLL_SEC": "0.1",
        "ULAK_IYS_RESULT_SEC": "0.1",
        "ULAK_IYS_PULL_SEC": "0.1",
        "ULAK_IYS_TIMEOUT_SEC": "2",
        "ULAK_IYS_LEASE_SEC": "3",
    }


async def until_told(registry: Registry, calls: int) -> None:
    async with asyncio.timeout(WITHIN_SEC):
        while len(await registry.told()) < calls:  # noqa: ASYNC110  the simulator has no event to wait for
            await asyncio.sleep(0.05)


async def until_states(registry: Registry, states: dict[str, int]) -> None:
    async with asyncio.timeout(WITHIN_SEC):
        while await registry.states() != states:  # noqa: ASYNC110  the relay is another process
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("lines", [1, 2])
async def test_killed_between_the_registrys_word_and_the_record(
    registry: Registry, database: str, kafka_settings: KafkaSettings, tmp_path: Path, lines: int
) -> None:
    for index in range(lines):
        await registry.says(index)
    await registry.fault(to=registry.number(), delayMs=600_000)  # taken, and answered never
    with relay(database, kafka_settings, tmp_path / "first.log", **environment(registry)) as process:
        await until_told(registry, 1)
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    assert await registry.states() == {"PENDING": lines}
    with relay(database, kafka_settings, tmp_path / "second.log", **environment(registry)):
        await until_states(registry, {"ACCEPTED": lines})
    assert [await registry.standing(index) for index in range(lines)] == ["ONAY"] * lines


async def test_a_citizens_refusal_arrives_by_itself(
    registry: Registry, database: str, kafka_settings: KafkaSettings, tmp_path: Path
) -> None:
    await registry.citizen()
    with relay(database, kafka_settings, tmp_path / "relay.log", **environment(registry)):
        async with asyncio.timeout(WITHIN_SEC):
            while not await registry.pool.fetchval(  # noqa: ASYNC110  the relay is another process
                "SELECT count(*) FROM ulak.consents WHERE source = 'IYS'"
            ):
                await asyncio.sleep(0.05)
