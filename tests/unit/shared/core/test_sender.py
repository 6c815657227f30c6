"""A profile's key is sealed under the profile's name, and opened once."""

from dataclasses import replace

import pytest

from shared.core.ports import DkimKey, SenderProfile
from shared.core.sealing import KeyRing, TamperedError, UnknownKeyError
from shared.core.sender import ProfileCache, StoredProfile, open_profile, seal_profile

RING = KeyRing("k1", {"k1": b"1" * 32}, b"l" * 32)
OTHER = KeyRing("k2", {"k2": b"2" * 32}, b"l" * 32)
PLAIN = SenderProfile("orders@shop.example", "Shop Orders", "help@shop.example", "bounces@shop.example")
SIGNED = replace(PLAIN, dkim=DkimKey("shop.example", "s1", b"-----BEGIN PRIVATE KEY-----"))


def test_what_is_sealed_opens_and_shows_no_key() -> None:
    stored = seal_profile("orders", SIGNED, RING)
    assert stored.profile == PLAIN
    assert b"PRIVATE" not in repr(stored).encode() + (stored.dkim.sealed if stored.dkim else b"")
    assert open_profile(stored, RING) == SIGNED


def test_key_belongs_to_its_profile() -> None:
    stored = replace(seal_profile("orders", SIGNED, RING), name="sales")
    with pytest.raises(TamperedError):
        open_profile(stored, RING)


def test_profile_without_a_key_opens_with_any_ring() -> None:
    assert open_profile(seal_profile("orders", PLAIN, RING), OTHER) == PLAIN


def test_cache_opens_again_only_what_has_changed() -> None:
    cache = ProfileCache()
    stored = seal_profile("orders", SIGNED, RING)
    first = cache.open(stored, RING)
    assert cache.open(StoredProfile(stored.name, stored.profile, stored.dkim), RING) is first
    assert cache.open(seal_profile("orders", replace(SIGNED, from_name="Other"), RING), RING).from_name == "Other"


def test_cache_keeps_nothing_that_did_not_open() -> None:
    cache = ProfileCache()
    stored = seal_profile("orders", SIGNED, RING)
    with pytest.raises(UnknownKeyError):
        cache.open(stored, OTHER)
    assert cache.open(stored, RING) == SIGNED
