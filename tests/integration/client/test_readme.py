"""Every snippet of the client's README does what it says."""

import ast
import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import asyncpg
import django.db
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from shared.core import sealing
from shared.runtime.keyring import write_ring
from tests.integration.client.kind import address, django_database
from tests.integration.ingest.conftest import Ingest, add_key

pytestmark = pytest.mark.postgres

README: Final = Path(__file__).parents[3] / "clients" / "python" / "README.md"
BLOCKS: Final = re.findall(r"```(\w+)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
Names = dict[str, Any]


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    order_no: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str]


def block(language: str, mark: str) -> str:
    """The one block of that language that holds the mark."""
    (found,) = (text for kind, text in BLOCKS if kind == language and mark in text)
    return str(found)


async def run(code: str, names: Names) -> None:
    compiled = compile(code, README.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if compiled.co_flags & inspect.CO_COROUTINE:
        await eval(compiled, names)
    else:
        await asyncio.to_thread(exec, compiled, names)


@pytest.fixture
def shop(service_database: str) -> str:
    with psycopg.connect(service_database) as connection:
        connection.execute("INSERT INTO orders VALUES ('98213', 'PAID')")
    return service_database


async def told() -> Names:
    names: Names = {"order_no": "98213"}
    await run(block("python", "shipped = Event("), names)
    return names


def count(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


async def with_psycopg(dsn: str, names: Names) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        await run(
            block("python", "connection.execute(\"UPDATE orders SET status = 'SHIPPED' WHERE order_no = %s"),
            {**names, "connection": connection},
        )


async def with_asyncpg(dsn: str, names: Names) -> None:
    connection = await asyncpg.connect(dsn)
    await run(block("python", "$1"), {**names, "connection": connection})
    await connection.close()


async def with_sqlalchemy(dsn: str, names: Names) -> None:
    engine = sqlalchemy.create_engine(address(dsn, "psycopg"))
    await run(block("python", "with Session(engine)"), {**names, "engine": engine, "Order": Order})
    engine.dispose()


async def with_async_sqlalchemy(dsn: str, names: Names) -> None:
    engine = create_async_engine(address(dsn, "asyncpg"))
    await run(block("python", "AsyncSession(engine)"), {**names, "engine": engine, "Order": Order})
    await engine.dispose()


async def with_django(dsn: str, names: Names) -> None:
    class DjangoOrder:
        status = "PAID"

        def save(self) -> None:
            with django.db.connection.cursor() as cursor:
                cursor.execute("UPDATE orders SET status = %s WHERE order_no = '98213'", [self.status])

    def view() -> None:
        with django_database(dsn):
            exec(block("python", "transaction.atomic()"), {**names, "order": DjangoOrder()})

    await asyncio.to_thread(view)


@pytest.mark.parametrize("way", [with_psycopg, with_asyncpg, with_sqlalchemy, with_async_sqlalchemy, with_django])
async def test_each_framework_tells_the_event_with_its_fact(
    way: Callable[[str, Names], Awaitable[None]], shop: str
) -> None:
    await way(shop, await told())
    assert count(shop, "SELECT status FROM orders") == "SHIPPED"
    assert count(shop, "SELECT key FROM ulak.outbox") == b"98213"


async def test_plain_sql_and_the_rights_it_needs(shop: str) -> None:
    with psycopg.connect(shop, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS shop")
        owner.execute("CREATE ROLE shop")
        owner.execute(block("sql", "GRANT").encode())
        owner.execute("SET ROLE shop")
        assert owner.execute(block("sql", "enqueue_event").encode()).fetchone() == ("order-98213-SHIPPED",)
        assert owner.execute(block("sql", "enqueue_email").encode()).fetchone() is not None
        owner.execute("RESET ROLE")
        owner.execute("DROP OWNED BY shop")
        owner.execute("DROP ROLE shop")


async def test_an_email_and_its_sealed_form(
    shop: str, key_ring: sealing.KeyRing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ring.json"
    write_ring(file, key_ring)
    monkeypatch.setenv("ULAK_KEY_RING_FILE", str(file))
    with psycopg.connect(shop, autocommit=True) as connection:
        names: Names = {"connection": connection}
        await run(block("python", "invoice = Email("), names)
        await run(block("python", "KeyRing.from_env()"), names)
    assert count(shop, "SELECT count(*) FILTER (WHERE sealed) FROM ulak.email_messages") == 1
    assert count(shop, "SELECT id FROM ulak.email_messages WHERE idempotency_key = 'invoice R-7'") == names["email_id"]


async def test_the_http_client(ingest: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULAK_INGEST_URL", ingest.url)
    monkeypatch.setenv("ULAK_OTP_URL", ingest.url)
    monkeypatch.setenv("ULAK_API_KEY", await add_key(ingest.pool))
    await run(block("python", "UlakClient("), {})
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 2


def test_the_sql_of_the_api_document(service_database: str) -> None:
    document = (README.parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    (statements,) = re.findall(r"```sql\n(.*?)```", document, re.DOTALL)
    with psycopg.connect(service_database) as connection:
        connection.execute(statements.encode())
    assert count(service_database, "SELECT count(*) FROM ulak.outbox") == 1
    assert count(service_database, "SELECT count(*) FROM ulak.email_messages WHERE attachments <> '[]'") == 1


def test_every_snippet_is_run_here() -> None:
    assert [kind for kind, _ in BLOCKS].count("python") == 9
    assert [kind for kind, _ in BLOCKS].count("sql") == 3
