"""A sealed value opens for its own row and purpose, with its own key, unaltered; and never otherwise."""

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given
from hypothesis import strategies as st

from shared.core.sealing import (
    KeyRing,
    LostKeyError,
    Purpose,
    SealError,
    TamperedError,
    UnknownKeyError,
    header,
    keyed_hash,
    open_sealed,
    seal,
)

KEY_1, KEY_2, LOOKUP = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
RING = KeyRing(active="k1", keys={"k1": KEY_1, "k2": KEY_2}, lookup_key=LOOKUP)
ROW = b"row-0001"

PURPOSES = st.sampled_from(Purpose)
ROWS = st.binary(max_size=64)


@given(st.binary(max_size=2_000), PURPOSES, ROWS)
def test_roundtrip(plain: bytes, purpose: Purpose, row: bytes) -> None:
    sealed = seal(RING, purpose, row, plain)
    assert open_sealed(RING, purpose, row, sealed) == plain
    assert len(plain) < 8 or plain not in sealed


@given(PURPOSES, ROWS)
def test_the_row_key_is_hkdf_expand_of_purpose_and_row(purpose: Purpose, row: bytes) -> None:
    """RFC 5869 section 2.3, by another implementation: what was sealed opens with it."""
    bound = purpose.encode() + b"\x00" + row
    row_key = HKDFExpand(algorithm=hashes.SHA256(), length=32, info=bound).derive(KEY_1)
    sealed = seal(RING, purpose, row, b"482913")
    start = 2 + len("k1")
    assert AESGCM(row_key).decrypt(sealed[start : start + 12], sealed[start + 12 :], bound) == b"482913"


@given(st.binary(max_size=64), PURPOSES, ROWS)
def test_a_value_begins_with_the_header_of_its_key_and_of_no_other(plain: bytes, purpose: Purpose, row: bytes) -> None:
    keys = {"k1": KEY_1, "k10": KEY_2, "k": LOOKUP}
    for key_id in keys:
        sealed = seal(KeyRing(active=key_id, keys=keys, lookup_key=LOOKUP), purpose, row, plain)
        assert [known for known in keys if sealed.startswith(header(known))] == [key_id]


def test_the_same_value_is_sealed_differently_each_time() -> None:
    assert seal(RING, Purpose.OTP, ROW, b"482913") != seal(RING, Purpose.OTP, ROW, b"482913")


@given(PURPOSES, PURPOSES, ROWS, ROWS)
def test_another_row_or_purpose_does_not_open(one: Purpose, other: Purpose, row: bytes, other_row: bytes) -> None:
    sealed = seal(RING, one, row, b"482913")
    if (one, row) == (other, other_row):
        return
    with pytest.raises(TamperedError):
        open_sealed(RING, other, other_row, sealed)


def test_every_altered_byte_is_noticed() -> None:
    sealed = seal(RING, Purpose.CONTENT, ROW, b"hello")
    for position in range(len(sealed)):
        altered = bytearray(sealed)
        altered[position] ^= 1
        with pytest.raises(SealError):
            open_sealed(RING, Purpose.CONTENT, ROW, bytes(altered))


def test_every_cut_is_tampering_never_an_unknown_key() -> None:
    """An unknown key is looked up again and retried for ever; half a value must not look like one."""
    sealed = seal(RING, Purpose.CONTENT, ROW, b"")
    for length in range(len(sealed)):
        with pytest.raises(TamperedError):
            open_sealed(RING, Purpose.CONTENT, ROW, sealed[:length])


@given(st.binary(max_size=200))
def test_foreign_bytes_are_a_seal_error(data: bytes) -> None:
    with pytest.raises(SealError):
        open_sealed(RING, Purpose.CONTENT, ROW, data)


def test_a_key_that_is_not_active_any_more_still_opens() -> None:
    sealed = seal(RING, Purpose.PARAMS, ROW, b"x")
    promoted = KeyRing(active="k2", keys=RING.keys, lookup_key=LOOKUP)
    assert open_sealed(promoted, Purpose.PARAMS, ROW, sealed) == b"x"
    assert open_sealed(RING, Purpose.PARAMS, ROW, seal(promoted, Purpose.PARAMS, ROW, b"y")) == b"y"


def test_an_unknown_key_is_named() -> None:
    sealed = seal(RING, Purpose.PARAMS, ROW, b"x")
    other = KeyRing(active="k2", keys={"k2": KEY_2}, lookup_key=LOOKUP)
    with pytest.raises(UnknownKeyError, match="'k1'") as caught:
        open_sealed(other, Purpose.PARAMS, ROW, sealed)
    assert caught.value.key_id == "k1"


def test_a_lost_key_is_lost_for_good() -> None:
    sealed = seal(RING, Purpose.PARAMS, ROW, b"x")
    other = KeyRing(active="k2", keys={"k2": KEY_2}, lookup_key=LOOKUP, lost=frozenset({"k1"}))
    with pytest.raises(LostKeyError, match="'k1'"):
        open_sealed(other, Purpose.PARAMS, ROW, sealed)


def test_another_key_under_the_same_id_does_not_open() -> None:
    sealed = seal(RING, Purpose.PARAMS, ROW, b"x")
    with pytest.raises(TamperedError):
        open_sealed(KeyRing(active="k1", keys={"k1": KEY_2}, lookup_key=LOOKUP), Purpose.PARAMS, ROW, sealed)


def test_repr_shows_no_key() -> None:
    shown = repr(RING)
    assert "k1" in shown
    for key in (KEY_1, KEY_2, LOOKUP):
        assert repr(key)[2:-1] not in shown
        assert key.hex() not in shown


@pytest.mark.parametrize(
    ("active", "keys", "lookup", "said"),
    [
        pytest.param("k9", {"k1": KEY_1}, LOOKUP, "k9", id="active-missing"),
        pytest.param("k1", {"k1": b"short"}, LOOKUP, "k1", id="short-key"),
        pytest.param("k1", {"k1": KEY_1}, b"short", "lookup key", id="short-lookup-key"),
        pytest.param("ş", {"ş": KEY_1}, LOOKUP, "ASCII", id="id-not-ascii"),
        pytest.param("", {"": KEY_1}, LOOKUP, "ASCII", id="id-empty"),
        pytest.param("k" * 65, {"k" * 65: KEY_1}, LOOKUP, "ASCII", id="id-too-long"),
    ],
)
def test_an_unusable_ring_is_refused(active: str, keys: dict[str, bytes], lookup: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        KeyRing(active=active, keys=keys, lookup_key=lookup)
    assert repr(KEY_1)[2:-1] not in str(caught.value)


def test_keyed_hash_is_hmac_sha256_of_label_nul_value() -> None:
    expected = hmac.new(LOOKUP, b"target:SMS\x00+905321234567", hashlib.sha256).digest()
    assert keyed_hash(RING, "target:SMS", "+905321234567") == expected


def test_keyed_hash_does_not_depend_on_the_rotated_keys() -> None:
    rotated = KeyRing(active="k7", keys={"k7": KEY_2}, lookup_key=LOOKUP)
    assert keyed_hash(rotated, "a", "b") == keyed_hash(RING, "a", "b")


def test_labels_keep_kinds_apart() -> None:
    assert keyed_hash(RING, "a", "b") != keyed_hash(RING, "b", "a")
