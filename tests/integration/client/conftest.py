"""A producing service's own database, as `ulak outbox ddl` leaves it, with one table of the service's."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.databases import Databases, databases_of, fill_for_producer
from tests.integration.ingest.conftest import catalogue, ingest, surfaces

__all__ = ["catalogue", "ingest", "surfaces"]
"""The real service, as its own tests run it."""


def fill_for_service(dsn: str) -> None:
    fill_for_producer(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (order_no text PRIMARY KEY, status text)")


@pytest.fixture(scope="session")
def service_databases(postgres_server: str) -> Iterator[Databases]:
    with databases_of(postgres_server, fill_for_service) as found:
        yield found


@pytest.fixture
def service_database(service_databases: Databases) -> Iterator[str]:
    """Its DSN."""
    with service_databases.one() as dsn:
        yield dsn
