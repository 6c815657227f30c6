"""The key ring of the machine that a command runs on."""

from shared.core.sealing import KeyRing
from shared.runtime.keyring import KeyRingError, KeyRingSettings, load_ring_source
from shared.runtime.settings import load


def local_ring() -> KeyRing | None:
    """None where there is none: then what is sealed is not told."""
    try:
        return load_ring_source(load(KeyRingSettings)).ring
    except KeyRingError:
        return None
