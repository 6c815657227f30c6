"""What benches make for themselves and take away again: a migrated database of their own, a key ring."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import psycopg

from shared.core.sealing import KeyRing
from shared.postgres.migrate import migrate

RING: Final = KeyRing(active="k1", keys={"k1": bytes(range(32))}, lookup_key=bytes(range(32, 64)))


@contextmanager
def scratch_database(server: str) -> Iterator[str]:
    """DSN of a fresh, migrated database on the server, dropped at the end."""
    name = f"ulak_bench_{secrets.token_hex(5)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    try:
        dsn = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        migrate(dsn)
        yield dsn
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
