"""A provider's reply, for its table, and the moment it comes."""

from datetime import UTC, datetime
from typing import Any

import orjson

from shared.core.ports import Reply

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)


def reply(status: int, body: Any = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, named, b"" if body is None else orjson.dumps(body))
