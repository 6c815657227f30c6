import pytest

from services.relay.email.settings import ModelASettings
from shared.core.sealing import KeyRing
from shared.postgres.pool import Pool
from tests.integration.delivery.conftest import simulator, simulator_process
from tests.integration.relay.email.world import World, fill_catalogue

__all__ = ["simulator", "simulator_process"]


@pytest.fixture
async def world(pool: Pool, foreign_pool: Pool, key_ring: KeyRing) -> World:
    """Rows in a service's own database, types and templates in Ulak's."""
    await fill_catalogue(pool)
    return World(pool, foreign_pool, key_ring, ModelASettings())
