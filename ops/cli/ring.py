"""The steps of a key's life: each takes a ring and gives the next one. Pure; `ulak keys` reads and writes."""

import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from shared.core.sealing import KeyRing

_NUMBERED: Final = re.compile(r"k([1-9]\d*)")


class KeyState(StrEnum):
    """active seals and opens, decrypt-only opens, lost (or retired) does neither: its values are given up."""

    ACTIVE = "active"
    DECRYPT_ONLY = "decrypt-only"
    LOST = "lost"


class RingStepError(ValueError):
    """A step that the ring does not allow; one sentence with the remedy."""


def states(ring: KeyRing) -> Mapping[str, KeyState]:
    """Every id that the ring knows, the lost ones last."""
    present = {key_id: KeyState.ACTIVE if key_id == ring.active else KeyState.DECRYPT_ONLY for key_id in ring.keys}
    return {**present, **dict.fromkeys(sorted(ring.lost), KeyState.LOST)}


def next_id(ring: KeyRing) -> str:
    """`k` and one more than the highest number in use, lost keys included: an id is never given twice."""
    return f"k{max((_number(key_id) or 0 for key_id in (*ring.keys, *ring.lost)), default=0) + 1}"


def with_key(ring: KeyRing, key: bytes) -> tuple[KeyRing, str]:
    """The ring with one key more, which opens and seals nothing yet, and that key's id."""
    added = next_id(ring)
    return replace(ring, keys={**ring.keys, added: key}), added


def awaiting(ring: KeyRing) -> str | None:
    """The newest key that was added and has not been promoted: ids rise with time, so its number is above the active's.

    Raises RingStepError where the active key's id does not tell its age.
    """
    active = _number(ring.active)
    if active is None:
        raise RingStepError(
            f"the active key {ring.active!r} was not named by `ulak keys`, so which keys are newer is not known: "
            "rotate once by `ulak keys new` and `ulak keys promote`"
        )
    newer = [number for key_id in ring.keys if (number := _number(key_id) or 0) > active]
    return f"k{max(newer)}" if newer else None


def promoted(ring: KeyRing, key_id: str) -> KeyRing:
    """The ring with this key as the one that seals; the one before it stays."""
    if key_id not in ring.keys:
        raise RingStepError(f"no key {key_id!r} in the ring: it has {', '.join(sorted(ring.keys))}")
    return replace(ring, active=key_id)


def retired(ring: KeyRing, key_id: str, *, unknown_too: bool) -> KeyRing:
    """The ring without this key, and with its id among the lost ones: what it sealed is rejected for good from now on.

    unknown_too: also an id that the ring never had, for a key that went lost with a ring.
    """
    if key_id == ring.active:
        raise RingStepError(f"key {key_id!r} is the one that seals: rotate first with `ulak keys rotate`")
    if key_id not in ring.keys and key_id not in ring.lost and not unknown_too:
        raise RingStepError(
            f"no key {key_id!r} in the ring: it has {', '.join(sorted(ring.keys))}. If that key is lost for good, "
            "--force records it as lost"
        )
    kept = {known: key for known, key in ring.keys.items() if known != key_id}
    return replace(ring, keys=kept, lost=ring.lost | {key_id})


def _number(key_id: str) -> int | None:
    found = _NUMBERED.fullmatch(key_id)
    return int(found[1]) if found else None
