"""`python -m ops.dev.email_model`: e-mails that name no model are of model A from now on, here and in the sample shop.

A set-up step of the stack that has nothing which would take one of model B.
"""

import asyncio
import os

import asyncpg

from ops.demo.shop_database import shop_dsn
from shared.postgres import producer


async def choose_model_a(postgres_dsn: str) -> None:
    """Safe to repeat. Both databases have the schema already."""
    for dsn in (postgres_dsn, shop_dsn(postgres_dsn)):
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(producer.ddl(email_model="A"))
        finally:
            await connection.close()


if __name__ == "__main__":
    asyncio.run(choose_model_a(os.environ["ULAK_POSTGRES_DSN"]))
