"""Databases for tests: as good as fresh ones, without creating one each time.

Creating a database copies some hundred files and dropping it takes a checkpoint: a tenth of a second of both cores for
each of a thousand tests. So one is used again, after everything a test can have left in it was taken away: connections,
rows, and its name, so that no process that outlived its test finds it. One whose schema or statistics are not those of
the template any more is dropped.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from shared.postgres import producer

_SHAPE: Final[LiteralString] = """
SELECT md5(string_agg(part, ',' ORDER BY part))
  FROM (SELECT concat_ws(' ', n.nspname, c.relname, c.relkind, c.relnatts, c.relchecks, c.relhastriggers)
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema'
         UNION ALL
        SELECT concat_ws(' ', 'function', p.proname, md5(p.prosrc))
          FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
         WHERE n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema'
         UNION ALL
        SELECT concat_ws(' ', 'constraint', conname, contype, convalidated) FROM pg_constraint WHERE conrelid >= 16384
         UNION ALL
        SELECT concat_ws(' ', 'schema', nspname, nspacl::text) FROM pg_namespace WHERE nspname NOT LIKE 'pg_%'
         UNION ALL
        SELECT concat_ws(' ', 'acl', relname, relacl::text) FROM pg_class WHERE relacl IS NOT NULL AND oid >= 16384
         UNION ALL
        SELECT concat_ws(' ', 'partition', inhrelid::regclass, inhparent::regclass) FROM pg_inherits
         UNION ALL
        SELECT concat_ws(' ', 'trigger', tgrelid::regclass, tgname, tgenabled) FROM pg_trigger WHERE NOT tgisinternal
         UNION ALL
        SELECT 'statistics' FROM pg_statistic WHERE starelid >= 16384) AS shape(part)
"""
"""Everything of a schema that a test may change and TRUNCATE does not undo; statistics steer plans."""

_FILLED: Final[LiteralString] = """
SELECT n.nspname, c.relname
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema'
   AND pg_relation_size(c.oid) > 0
 ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class _Template:
    """shape as `_SHAPE` tells it; rows are those of tables that are not empty in it."""

    name: str
    shape: str
    rows: dict[tuple[str, str], list[tuple[Any, ...]]]


class Databases:
    """Of one server and alike, for one process's tests one after another. Blocks."""

    def __init__(self, server: str, fill: Callable[[str], object]) -> None:
        """fill: makes what all of them have, in an empty database by its DSN; called once."""
        self._server = server
        self._fill = fill
        self._admin = psycopg.connect(server, autocommit=True)
        self._template: _Template | None = None
        self._free: list[str] = []

    def close(self) -> None:
        for name in [*self._free, *([self._template.name] if self._template else [])]:
            self._drop(name)
        self._admin.close()

    @property
    def template(self) -> str:
        """Name of a database as they all are, which may be copied; nobody is connected to it."""
        return self._filled().name

    @contextmanager
    def one(self) -> Iterator[str]:
        """DSN of a database that has what `fill` made, and nothing else."""
        template = self._filled()
        name = f"ulak_test_{secrets.token_hex(6)}"
        if not self._renamed(name):
            self._execute("CREATE DATABASE {} TEMPLATE {}", name, template.name)
        try:
            yield self._dsn(name)
        finally:
            if self._cleaned(name, template):
                self._free.append(name)
            else:
                self._drop(name)

    def _renamed(self, name: str) -> bool:
        """Give a database that is free its new name; False if there is none, or one whose last backend, told to end,
        has not yet: a busy machine takes its time, and a new database is quicker than waiting.
        """
        if not self._free:
            return False
        old = self._free.pop()
        try:
            self._execute("ALTER DATABASE {} RENAME TO {}", old, name)
        except psycopg.errors.ObjectInUse:
            self._drop(old)
            return False
        return True

    def _filled(self) -> _Template:
        if self._template is None:
            name = f"ulak_template_{secrets.token_hex(4)}"
            self._execute("CREATE DATABASE {}", name)
            self._fill(self._dsn(name))
            with psycopg.connect(self._dsn(name)) as connection:
                (shape,) = connection.execute(_SHAPE).fetchone() or ("",)
                rows = {table: _rows(connection, table) for table in connection.execute(_FILLED).fetchall()}
            self._template = _Template(name, shape, rows)
        return self._template

    def _cleaned(self, name: str, template: _Template) -> bool:
        """Make the database as its template is; False if that cannot be had by removing rows."""
        self._admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        try:
            with psycopg.connect(self._dsn(name)) as connection:
                if connection.execute(_SHAPE).fetchone() != (template.shape,):
                    return False
                filled = connection.execute(_FILLED).fetchall()
                if filled:
                    tables = sql.SQL(", ").join(sql.Identifier(*table) for table in filled)
                    connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(tables))
                for table, rows in template.rows.items():
                    for row in rows:
                        holes = sql.SQL(", ").join(sql.Placeholder() * len(row))
                        connection.execute(
                            sql.SQL("INSERT INTO {} VALUES ({})").format(sql.Identifier(*table), holes), row
                        )
        except psycopg.Error:  # dropped, renamed or refused by what the test did: a fresh one is made
            return False
        return True

    def _drop(self, name: str) -> None:
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _execute(self, statement: LiteralString, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _dsn(self, name: str) -> str:
        return urlunsplit(urlsplit(self._server)._replace(path=f"/{name}"))


@contextmanager
def databases_of(server: str, fill: Callable[[str], object]) -> Iterator[Databases]:
    """They are dropped when the block ends."""
    found = Databases(server, fill)
    try:
        yield found
    finally:
        found.close()


def fill_for_producer(dsn: str) -> None:
    """As `ulak outbox ddl` leaves a service's database, here after two runs."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(producer.ddl().encode())
        connection.execute(producer.ddl().encode())


def _rows(connection: "psycopg.Connection[Any]", table: tuple[str, str]) -> list[tuple[Any, ...]]:
    return connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(*table))).fetchall()
