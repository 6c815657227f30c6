"""The cyclic garbage collector, set for services that work in batches."""

import gc
from typing import Final

YOUNG_THRESHOLD: Final = 50_000


def collect_rarely() -> None:
    """Leave alone what lives as long as the process, and look for cycles every 50,000 new containers.

    A batch of 500 makes some tens of thousands of values that reference counting frees by itself; at the interpreter's
    700 the collector walked them a hundred times for nothing (measured in the router: a third of its CPU).
    Call it once, when everything is imported.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, 20, 50)
