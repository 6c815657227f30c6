"""Apache Kafka: one real broker that is its own controller (KRaft), from pinned jars and the Java that pip brings."""

import asyncio
import base64
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field
from pathlib import Path

from ops.dev.errors import StackError, explain_os_error
from ops.dev.files import tail, write_private
from ops.dev.jars import cached_jars
from ops.dev.java import find_java
from ops.dev.paths import project_root
from ops.dev.processes import Command, Watchdog, run_to_end
from ops.dev.servers.contract import QUIET, run_once

# Measured on two cores: the quick compiler alone and the simplest collector start the broker in half the time of the
# defaults; 256 MB carries the stack's few hundred partitions. An old java that lacks an option must not refuse it.
_JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xmx256m",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
)

_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = info
"""


@dataclass(slots=True)
class Kafka:
    """The broker of one stack. It leaves flushing to the system, as Kafka does: a SIGKILL loses nothing."""

    folder: Path
    port: int
    controller_port: int
    environment: dict[str, str] = field(repr=False)
    say: Callable[[str], None] = field(default=lambda _: None, repr=False)
    name: str = field(default="kafka", init=False)
    _jars: Path | None = field(default=None, init=False)
    _java: Path | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    async def prepare(self, watchdog: Watchdog) -> None:
        self._java = find_java(self.environment)
        self._jars = cached_jars(self.environment) or await self._fetch_jars(watchdog)
        data = self.folder / "data"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_private(self.folder / "log4j2.properties", _LOGGING)
            write_private(self._properties, configuration(data, self.port, self.controller_port))
            if not (data / "meta.properties").is_file():
                shutil.rmtree(data, ignore_errors=True)
                tool = (*self._java_command(), "kafka.tools.StorageTool", "format")
                arguments = ("--cluster-id", new_cluster_id(), "--config", str(self._properties))
                command = Command((*tool, *arguments), self.folder, self.environment)
                await run_once("format Kafka's data", command, self.folder / "format.log", watchdog)
        except OSError as error:
            raise explain_os_error(error, "prepare Kafka's data") from error

    async def _fetch_jars(self, watchdog: Watchdog) -> Path:
        # In a process of its own: an interrupt ends it at once, where threads would go on until their last byte.
        fetch = Command((sys.executable, "-m", "ops.dev.jars", "fetch"), project_root(), self.environment)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise explain_os_error(error, "prepare Kafka's data") from error
        log = self.folder / "fetch.log"
        code = await run_to_end("the fetch of Kafka", fetch, log, watchdog, say=self.say)
        jars = cached_jars(self.environment)
        if code != 0 or jars is None:
            raise StackError("".join(tail(log, 1)) or f"The fetch of Kafka's jars ended with {code}. Try again.")
        return jars

    def _java_command(self) -> tuple[str, ...]:
        assert self._java is not None, "prepare() comes first"
        logging = f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').as_uri()}"
        return (str(self._java), *_JVM_OPTIONS, logging, "-cp", f"{self._jars}/*")

    def command(self) -> Command:
        return Command(
            argv=(*self._java_command(), "kafka.Kafka", str(self._properties)),
            cwd=self.folder,
            environment=self.environment,
        )

    async def check(self) -> None:
        # The client's threads retry a closed port every 100 ms and log each: ask it only when something listens.
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.close()
        await writer.wait_closed()
        await asyncio.to_thread(self._list_topics)

    def _list_topics(self) -> None:
        from confluent_kafka.admin import AdminClient

        client = AdminClient({"bootstrap.servers": self.url, "socket.timeout.ms": 3000}, logger=QUIET)
        topics = client.list_topics(timeout=3).topics
        if "__consumer_offsets" not in topics:
            # Made at the first question about any group, and a consumer that asks first waits 3 s for it: ask here.
            asked = client.describe_consumer_groups(["ops.dev.check"], request_timeout=1)
            wait(asked.values(), timeout=1)

    def wipe(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def new_cluster_id() -> str:
    """A random UUID as Kafka writes it: 22 characters of URL-safe base64; Kafka refuses one that begins with a dash."""
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def configuration(data: Path, port: int, controller_port: int) -> str:
    """The broker's properties file."""
    properties: Mapping[str, str | int] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
        # A topic with a typing error must be an error, as in production.
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        # A broker that was killed is refused as a double of itself until its old session ends: 9 s by default.
        "broker.session.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 400,
        # Defaults for servers: 128 MB of heap for compaction, and 20 MB of index files for each partition.
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
        "log.index.size.max.bytes": 1024 * 1024,
        "log.segment.bytes": 256 * 1024 * 1024,
        "num.recovery.threads.per.data.dir": 2,
    }
    return "".join(f"{name}={_escape(str(value))}\n" for name, value in properties.items())


def _escape(value: str) -> str:
    """A value of a Java properties file: backslashes doubled, what is not ASCII as Unicode escapes."""
    doubled = value.replace("\\", "\\\\")
    units = doubled.encode("utf-16-be")
    pairs = (int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2))
    return "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for unit in pairs)
