"""What `ulak db check` looks at: facts are read, then judged by a pure function."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from shared.postgres.errors import SchemaOutdatedError, translated
from shared.postgres.partition import DAYS_AHEAD, Partition, attached, days
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.postgres.schema import check_revision, current_revision

OLDEST_SERVER: Final = 15
_FEWEST_CONNECTIONS: Final = 100
_LONG_TRANSACTION_SEC: Final = 900.0
_DAYS_AHEAD_AT_LEAST: Final = 2
_SETTINGS: Final = ("server_version_num", "max_connections", "fsync", "full_page_writes", "synchronous_commit")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What was read of one database. `settings` as pg_settings shows them, `encoding` as PostgreSQL names it."""

    settings: Mapping[str, str]
    in_recovery: bool
    encoding: str
    oldest_transaction_sec: float
    revision: str | None
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the check. `remedy` is None where all is well."""

    subject: str
    state: str
    remedy: str | None = None

    @property
    def ok(self) -> bool:
        return self.remedy is None


async def read_facts(connection: Connection) -> ServerFacts:
    """Ask the server; UnavailableError if it goes away meanwhile."""
    queries = load_queries("check")
    with translated():
        settings = await connection.fetch(queries["settings"], list(_SETTINGS))
        return ServerFacts(
            settings={row["name"]: row["setting"] for row in settings},
            in_recovery=bool(await connection.fetchval(queries["in_recovery"])),
            encoding=str(await connection.fetchval(queries["encoding"])),
            oldest_transaction_sec=float(await connection.fetchval(queries["oldest_transaction"])),
            revision=await current_revision(connection),
            partitions=await attached(connection),
        )


def judge(facts: ServerFacts, today: date) -> tuple[Finding, ...]:
    """One finding per subject, always in this order, good ones included. `today` is the UTC day."""
    return (
        _version(int(facts.settings["server_version_num"])),
        _role(in_recovery=facts.in_recovery),
        _encoding(facts.encoding),
        _connections(int(facts.settings["max_connections"])),
        _durability(facts.settings),
        _transactions(facts.oldest_transaction_sec),
        _revision(facts.revision),
        _partitions(facts.partitions, today),
    )


def _version(number: int) -> Finding:
    state = f"PostgreSQL {number // 10_000}.{number % 10_000}"
    if number // 10_000 < OLDEST_SERVER:
        return Finding("version", state, f"use PostgreSQL {OLDEST_SERVER} or newer")
    return Finding("version", state)


def _role(*, in_recovery: bool) -> Finding:
    if in_recovery:
        return Finding("role", "standby, read-only", "point ULAK_POSTGRES_DSN at the primary")
    return Finding("role", "primary")


def _encoding(name: str) -> Finding:
    if name != "UTF8":
        return Finding("encoding", name, "use a database made with ENCODING 'UTF8': templates hold any script")
    return Finding("encoding", name)


def _connections(most: int) -> Finding:
    state = f"max_connections {most}"
    if most < _FEWEST_CONNECTIONS:
        remedy = f"raise max_connections to {_FEWEST_CONNECTIONS} at least: each service has a pool of its own"
        return Finding("connections", state, remedy)
    return Finding("connections", state)


def _durability(settings: Mapping[str, str]) -> Finding:
    off = [name for name in ("fsync", "full_page_writes", "synchronous_commit") if settings[name] == "off"]
    if off:
        remedy = f"set {' and '.join(f'{name} = on' for name in off)}: an accepted notification must survive a crash"
        return Finding("durability", f"{', '.join(off)} off", remedy)
    return Finding("durability", "commits are durable")


def _transactions(oldest_sec: float) -> Finding:
    state = f"oldest transaction {oldest_sec:.0f} s"
    if oldest_sec > _LONG_TRANSACTION_SEC:
        remedy = "end the session with the oldest xact_start in pg_stat_activity: it keeps vacuum from the hot tables"
        return Finding("transactions", state, remedy)
    return Finding("transactions", state)


def _revision(current: str | None) -> Finding:
    try:
        check_revision(current)
    except SchemaOutdatedError as error:
        return Finding("schema", f"revision {current or 'none'}", str(error))
    return Finding("schema", f"revision {current}")


def _partitions(found: frozenset[Partition], today: date) -> Finding:
    present = days(found)
    if today not in present:
        return Finding("partitions", f"none for {today} (UTC)", "run `ulak db partitions`")
    last = today
    while last + timedelta(days=1) in present:
        last += timedelta(days=1)
    ahead = (last - today).days
    if ahead < _DAYS_AHEAD_AT_LEAST:
        remedy = f"run `ulak db partitions` and see why nobody does so daily: {DAYS_AHEAD} days ahead are usual"
        return Finding("partitions", f"{ahead} days ahead", remedy)
    return Finding("partitions", f"today's, and {ahead} days ahead")
