"""Real servers from wheels. `running` is for tests and tools that want them for a while; `ulak dev` supervises them."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ops.dev.errors import StackError
from ops.dev.paths import StackPaths
from ops.dev.ports import reserve_ports
from ops.dev.processes import Child, Watchdog, spawn
from ops.dev.servers.contract import Server, last_words_of
from ops.dev.servers.kafka import Kafka
from ops.dev.servers.postgres import Postgres
from ops.dev.servers.valkey import Valkey
from ops.dev.together import together

ALL: frozenset[str] = frozenset({"postgres", "valkey", "kafka"})
PORTS: Mapping[str, tuple[str, ...]] = {
    "postgres": ("postgres",),
    "valkey": ("valkey",),
    "kafka": ("kafka", "kafka-controller"),
}
START_TIMEOUT_SEC = 60.0
STOP_GRACE_SEC = 20.0
_POLL_SEC = 0.03


@dataclass(frozen=True, slots=True)
class RunningServers:
    """The addresses of servers that answer. Asking for one that was not started raises StackError."""

    addresses: Mapping[str, str] = field(repr=False)

    @property
    def postgres_dsn(self) -> str:
        return self._address("postgres")

    @property
    def redis_url(self) -> str:
        return self._address("valkey")

    @property
    def kafka_bootstrap(self) -> str:
        return self._address("kafka")

    def _address(self, name: str) -> str:
        try:
            return self.addresses[name]
        except KeyError:
            raise StackError(f"{name} was not asked for. Name it in `which`.") from None


_INHERITED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "TZ", "LD_LIBRARY_PATH",
    "ULAK_JAVA", "ULAK_CACHE_DIR", "ULAK_MAVEN_REPOSITORY_URL", "XDG_CACHE_HOME", "M2_REPO",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR",
})  # fmt: skip


def server_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a server inherits: nothing that would redirect it (PGDATA, CLASSPATH, JAVA_TOOL_OPTIONS, ...).

    Proxies and certificates stay: the first start fetches Kafka's jars.
    """
    return {name: value for name, value in environ.items() if name in _INHERITED or name.upper().endswith("_PROXY")}


def build(
    which: frozenset[str],
    paths: StackPaths,
    ports: Mapping[str, int],
    environ: Mapping[str, str],
    *,
    durable: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> list[Server]:
    """The servers of a stack, in start order, nothing of them touched yet."""
    environment = server_environment(environ)
    makers: Mapping[str, Callable[[], Server]] = {
        "postgres": lambda: Postgres(paths.state, ports["postgres"], environment, durable),
        "valkey": lambda: Valkey(paths.state / "valkey", ports["valkey"], environment, durable),
        "kafka": lambda: Kafka(paths.state / "kafka", ports["kafka"], ports["kafka-controller"], environment, say),
    }
    return [make() for name, make in makers.items() if name in which]


async def wait_until_ready(server: Server, child: Child, log: Path, timeout_sec: float = START_TIMEOUT_SEC) -> None:
    """Return when the server answers. Raises StackError when it ended or did not answer in time."""
    deadline = time.monotonic() + timeout_sec
    while True:
        if child.exit_code() is not None:
            raise StackError(f"{server.name} ended while starting: {last_words_of(log)} Its log: {log}")
        try:
            await asyncio.wait_for(server.check(), 5)
        except Exception as error:  # whatever a client raises before its server is up means "not yet"
            if time.monotonic() > deadline:
                raise StackError(
                    f"{server.name} did not answer within {timeout_sec:.0f} s ({type(error).__name__}). "
                    f"Read its log: {log}"
                ) from error
            await asyncio.sleep(_POLL_SEC)
        else:
            return


async def start(servers: Sequence[Server], paths: StackPaths, watchdog: Watchdog) -> list[Child]:
    """Prepare, start and await all of them at once. When one fails, those already started are ended and it raises.

    Call it in a thread that outlives the servers (see `processes.spawn`).
    """
    await together(server.prepare(watchdog) for server in servers)
    children: list[Child] = []
    try:
        for server in servers:
            children += [spawn(server.name, server.command(), paths.log(server.name), watchdog)]
        await together(
            [
                wait_until_ready(server, child, paths.log(server.name))
                for server, child in zip(servers, children, strict=True)
            ]
        )
    except BaseException:
        for child in children:
            child.kill()
        raise
    return children


async def stop(children: Sequence[Child], grace_sec: float = STOP_GRACE_SEC) -> None:
    """Ask all to stop, wait for them together, end by force what is left after the grace period."""
    for child in children:
        child.ask_to_stop()
    deadline = time.monotonic() + grace_sec
    while any([child.exit_code() is None for child in children]) and time.monotonic() < deadline:  # noqa: ASYNC110, C419
        # Children end when they end, no event of ours tells; the list sees every child, so that each is reaped.
        await asyncio.sleep(_POLL_SEC)
    for child in children:
        child.kill()


@contextmanager
def running(
    state_dir: Path,
    which: AbstractSet[str] = ALL,
    *,
    durable: bool = True,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[RunningServers]:
    """Run real servers with their data and logs in `state_dir` for as long as the block lasts.

    Give `durable=False` for throw-away data: no waiting for the disk. Data that is there is used again.
    Call it in the main thread and outside an event loop; it blocks for some seconds. Also when the process is killed,
    no server stays. When root calls it, PostgreSQL's data may lie outside `state_dir`: `wipe` removes it.
    Raises StackError, which says what to do.
    """
    environ = os.environ if environ is None else environ
    paths = StackPaths(state_dir.resolve())
    names = [port for name in sorted(which) for port in PORTS[name]]
    ports = reserve_ports(paths.ports, names, seed=str(paths.state))
    servers = build(frozenset(which), paths, ports, environ, durable=durable, say=say)
    with Watchdog.open() as watchdog:
        children = asyncio.run(start(servers, paths, watchdog))
        try:
            yield RunningServers({server.name: server.url for server in servers})
        finally:
            asyncio.run(stop(children))
            if not durable:
                for server in servers:
                    server.wipe()


def wipe(state_dir: Path, which: AbstractSet[str] = ALL) -> None:
    """Remove the servers' data of a state folder, wherever it lies. They must be down."""
    paths = StackPaths(state_dir.resolve())
    ports = {port: 0 for name in which for port in PORTS[name]}
    for server in build(frozenset(which), paths, ports, {}):
        server.wipe()
