"""The in-process provider of `mode` test: takes everything, tells nobody (api.md, kinds of API keys)."""

from collections.abc import Sequence
from typing import Final

from shared.core.outcome import Accepted, NotSent, Outcome
from shared.core.ports import Prepared, SendWindow

NAME: Final = "simulated"


class SimulatedSender:
    """`Sender` that accepts at once; its message id is the delivery's reference as a UUID."""

    provider: Final = NAME
    concurrency: Final = 1000

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return [
            Accepted(message.key.reference_uuid_text) if window.may_start() else NotSent("the lease was too short")
            for message in batch
        ]
