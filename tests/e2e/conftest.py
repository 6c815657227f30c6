"""One whole stack for all tests of this folder. They run on one worker, one after another (tests/schedule.py): two
stacks at a time would starve each other on two cores. So the demo's test, with its own stack, comes first (`demo/`).
"""

from collections.abc import Iterator

import pytest

from tests.e2e.stack import Stack

# The sweep looks every few seconds instead of every ten minutes. A breaker that opened because a provider was killed
# and took long to come back is tried again after seconds, not five minutes later.
IMPATIENT = {"ULAK_RELAY_SWEEP_HORIZONS_SEC": "3,10,30", "ULAK_BREAKER_OPEN_SEC": "2", "ULAK_BREAKER_RECOVERY_SEC": "2"}


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    started = Stack(tmp_path_factory.mktemp("stack"), IMPATIENT)
    try:
        started.up()
        yield started
    finally:
        started.down(wipe=True)
