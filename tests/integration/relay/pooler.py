"""PgBouncer from the distribution, in transaction mode, as it stands before many a service's database (O5)."""

import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from ops.dev.ports import reserve_ports

SERVER_CONNECTIONS = 3
"""Fewer than the relay has transactions at a time, so that its clients do share them."""


@contextmanager
def pooler(dsn: str, folder: Path) -> Iterator[str]:
    """DSN of the same database through a PgBouncer of its own, which lives as long as the block."""
    parts = urlsplit(dsn)
    port = reserve_ports(folder / "ports.json", ["pooler"], seed=str(folder))["pooler"]
    users = folder / "users.txt"
    users.write_text(f'"{parts.username}" "{parts.password or ""}"\n', encoding="utf-8")
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"""
[databases]
* = host={parts.hostname} port={parts.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
max_client_conn = 200
""",
        encoding="utf-8",
    )
    folder.chmod(0o755)
    command = ["pgbouncer", str(config)]
    if os.geteuid() == 0:  # which PgBouncer refuses to be
        command = ["pgbouncer", "-u", pwd.getpwnam("nobody").pw_name, str(config)]
    with (folder / "pgbouncer.log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        pooled = urlunsplit(parts._replace(netloc=f"{parts.username}:{parts.password or ''}@127.0.0.1:{port}"))
        try:
            _until_it_answers(pooled)
            yield pooled
        finally:
            process.terminate()


@retry(retry=retry_if_exception_type(psycopg.OperationalError), stop=stop_after_delay(20), wait=wait_fixed(0.05))
def _until_it_answers(dsn: str) -> None:
    with psycopg.connect(dsn, connect_timeout=2):
        pass
