"""The cyclic garbage collector, set for services that work in batches."""

import gc
from typing import Final

YOUNG_THRESHOLD: Final = 50_000


def collect_rarely() -> None:
    """Leave alone what lives as long as the process, and look for cycles every 50,000 new containers.

    A batch of 500 makes some tens of thousands of values that reference counting frees by itself; at the interpreter's
    700 the collector walked them a hundred times for nothing (measured: a third of the router's CPU, a quarter of a
    worker's). Call it when everything is imported, and again where more was loaded since.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, 20, 50)
