"""Every named statement of every part is one that the server accepts on this schema."""

from pathlib import Path

import pytest

import shared.postgres.query
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries

pytestmark = pytest.mark.postgres

FILES = sorted(path.stem for path in (Path(shared.postgres.query.__file__).parent / "queries").glob("*.sql"))


@pytest.mark.parametrize("file", FILES)
async def test_every_statement_can_be_prepared(pool: Pool, file: str) -> None:
    async with pool.acquire() as connection:
        for text in load_queries(file).values():
            await connection.prepare(text)
