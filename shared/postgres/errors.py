"""What can be wrong with the database, in words that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg

from shared.runtime.error import OperatorError


class PostgresError(OperatorError):
    """Base of this package's errors.

    PostgresError
    +-- UnavailableError        unreachable, refused, shutting down, connection lost: try again later
    +-- SchemaOutdatedError     the schema is older than this release needs: `ulak db migrate`
    +-- PartitionMissingError   no partition for the day: `ulak db partitions`
    +-- PartitionError          a partition could not be created or dropped
    +-- MigrationError          a migration failed; what it did was rolled back
    +-- RoleError               a database role could not be made (shared/postgres/role.py)
    +-- QueryFileError          a .sql file of ours is malformed (a fault of this release)
    """


class UnavailableError(PostgresError):
    pass


class SchemaOutdatedError(PostgresError):
    pass


class PartitionMissingError(PostgresError):
    pass


class PartitionError(PostgresError):
    pass


class MigrationError(PostgresError):
    pass


class QueryFileError(PostgresError):
    pass


UNAVAILABLE: Final[tuple[type[Exception], ...]] = (
    OSError,  # includes ConnectionError and, from Python 3.11 on, TimeoutError
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,  # still connected to a primary that has become a standby
    asyncpg.InterfaceError,  # "connection is closed"
)
"""What asyncpg raises where nothing is wrong with the statement: the server or the way to it is."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn what asyncpg raises for an unusable server into UnavailableError; anything else passes as it is."""
    try:
        yield
    except UNAVAILABLE as error:
        raise UnavailableError(f"PostgreSQL is not usable now ({describe(error)})") from error


def describe(error: BaseException) -> str:
    """Class and first line of an error; never the DSN."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
