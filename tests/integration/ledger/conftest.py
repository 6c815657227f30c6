import pytest

from shared.postgres.pool import Pool
from tests.integration.ledger.world import add_application, add_catalogue


@pytest.fixture
async def application(pool: Pool) -> int:
    """The id of an application, in a database that has the catalogue of `world`."""
    await add_catalogue(pool)
    return await add_application(pool)
