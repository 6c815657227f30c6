from collections.abc import Collection

import pytest

from services.ingest.__main__ import Surfaces


@pytest.fixture
def surfaces() -> Collection[Surfaces]:
    return [Surfaces.ALL]
