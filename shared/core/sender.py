"""Sender profiles as they are stored, and opened for sending: who the mails of a type are from."""

from dataclasses import dataclass, field, replace

from shared.core.ports import DkimKey, SenderProfile
from shared.core.sealing import KeyRing, Purpose, open_sealed, seal


@dataclass(frozen=True, slots=True)
class SealedKey:
    """A DKIM key as it is stored: the PEM sealed for dkim-v1 with the profile's name as its row."""

    domain: str
    selector: str
    sealed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A sender profile with its key still sealed; `profile` is all the rest of it."""

    name: str
    profile: SenderProfile
    dkim: SealedKey | None = None


def seal_profile(name: str, profile: SenderProfile, ring: KeyRing) -> StoredProfile:
    """For storing, the key under the ring's active one. Inverse of `open_profile`."""
    if profile.dkim is None:
        return StoredProfile(name, profile)
    sealed = seal(ring, Purpose.DKIM, name.encode(), profile.dkim.private_key)
    key = SealedKey(profile.dkim.domain, profile.dkim.selector, sealed)
    return StoredProfile(name, replace(profile, dkim=None), key)


def open_profile(stored: StoredProfile, ring: KeyRing) -> SenderProfile:
    """Ready to send with; raises a SealError, and only for a profile that has a key."""
    if stored.dkim is None:
        return stored.profile
    pem = open_sealed(ring, Purpose.DKIM, stored.name.encode(), stored.dkim.sealed)
    return replace(stored.profile, dkim=DkimKey(stored.dkim.domain, stored.dkim.selector, pem))


class ProfileCache:
    """Profiles opened once for as long as they stay what they are: the same value again, not an equal one.

    Holds one per name, so it is never larger than the catalogue.
    """

    def __init__(self) -> None:
        self._opened: dict[str, tuple[StoredProfile, SenderProfile]] = {}

    def open(self, stored: StoredProfile, ring: KeyRing) -> SenderProfile:
        """As `open_profile`."""
        known = self._opened.get(stored.name)
        if known is not None and known[0] == stored:
            return known[1]
        opened = open_profile(stored, ring)
        self._opened[stored.name] = (stored, opened)
        return opened
