"""A call that is never answered holds up its own part of a claim alone."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.core.outcome import Accepted, Outcome
from shared.core.ports import Prepared, SendWindow
from shared.core.sealing import KeyRing
from shared.postgres.pool import Pool
from tests.integration.delivery.world import ScriptedSender, Seeded, World, make_world

SILENT = "+905320000000"


@dataclass
class SenderWithASilentCall(ScriptedSender):
    """Answers at once, but for the message to SILENT, whose answer waits until `answered`."""

    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        if any(message.address == SILENT for message in batch):
            await self.answered.wait()
        self.sent.extend(batch)
        return [Accepted(message.address) for message in batch]


async def _sent(world: World, seeded: Sequence[Seeded]) -> int:
    return sum([(await world.seeder.row(each.key))["status"] == "SENT" for each in seeded])


async def test_others_are_recorded_while_one_call_is_silent_and_the_lease_lasts(pool: Pool, key_ring: KeyRing) -> None:
    """A kill in this moment makes at most one part UNKNOWN, not the whole claim (docs/semantics.md section 3)."""
    sender = SenderWithASilentCall()
    world = make_world("sms-tx", pool, key_ring, sender=sender)
    seeded = [await world.seeder.delivery(address=f"+9053212345{number:02d}") for number in range(19)]
    seeded.append(await world.seeder.delivery(address=SILENT))
    working = asyncio.create_task(world.work(*seeded))
    async with asyncio.timeout(60):
        while await _sent(world, seeded) < 15:  # noqa: ASYNC110  rows of a database, no event of ours tells
            await asyncio.sleep(0.02)
    assert await world.seeder.leases() == 1
    assert not working.done()
    sender.answered.set()
    await working
    assert await _sent(world, seeded) == 20
    assert await world.seeder.leases() == 0
    assert len(world.statuses()) == 20
    assert len(sender.sent) == 20
