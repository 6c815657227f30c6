"""How fast one caller may call, across all processes (generic cell rate algorithm)."""

from pathlib import Path
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

_SCRIPT: Final = (Path(__file__).parent / "caller_rate.lua").read_text(encoding="utf-8")


class CallerRate:
    """So many requests a second and caller, and a burst after rest. Raises redis.RedisError as the client does."""

    def __init__(self, redis: Redis, key_prefix: str, *, per_second: float, burst: int) -> None:
        self._redis = redis
        self._prefix = key_prefix
        self._arguments = (str(per_second), str(burst))
        self._sha = ""

    async def take(self, caller: str) -> float | None:
        """None if the request may go on, else the seconds after which to come again.

        caller stands in a key: nothing that names a person may be it.
        """
        key = f"{self._prefix}rate:{caller}"
        try:
            wait_ms = await self._redis.evalsha(self._sha or await self._load(), 1, key, *self._arguments)
        except NoScriptError:  # the server was restarted; EVAL brings the script along and keeps it
            wait_ms = await self._redis.eval(_SCRIPT, 1, key, *self._arguments)
        return int(wait_ms) / 1000 if int(wait_ms) else None

    async def _load(self) -> str:
        self._sha = str(await self._redis.script_load(_SCRIPT))
        return self._sha
