"""One sentence of a story."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One sentence and when it became true. result is the machine-readable word behind it."""

    at: datetime
    text: str
    result: str
    channel: str | None = None
    reason: str | None = None

    def body(self) -> dict[str, Any]:
        body = {"at": self.at, "text": self.text, "channel": self.channel, "result": self.result, "reason": self.reason}
        return {name: value for name, value in body.items() if value is not None}
