"""Where the client's key comes from. That Ulak opens what it seals: tests/integration/client/test_sealing.py."""

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest
from ulak_client.sealing import KeyRing, KeyRingError, KeyRingWarning, SealingKey

from shared.core import sealing
from shared.core.sealing import Purpose, open_sealed
from shared.runtime.keyring import ring_json, write_ring

KEY = bytes(range(32))
ULAKS = sealing.KeyRing(active="k2", keys={"k1": bytes(32), "k2": KEY}, lookup_key=bytes(32), lost=frozenset({"k0"}))
SMALL = json.dumps({"active": "k2", "keys": {"k2": b64encode(KEY).decode()}})


def write(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.touch()
    path.write_bytes(data)
    path.chmod(mode)
    return path


def sealed_by(ring: KeyRing) -> str:
    """The id of the key that seals, from a value that Ulak opens."""
    sealed = ring.seal(b"row", b"plain")
    assert open_sealed(ULAKS, Purpose.OUTBOX, b"row", sealed) == b"plain"
    return sealed[2 : 2 + sealed[1]].decode()


@pytest.mark.parametrize("data", [ring_json(ULAKS), SMALL.encode()], ids=["ulaks-own", "active-key-alone"])
def test_a_ring_file_gives_the_active_key(data: bytes, tmp_path: Path) -> None:
    assert sealed_by(KeyRing.from_file(write(tmp_path / "ring.json", data))) == "k2"


def test_the_environment_gives_a_file_or_the_ring_itself(tmp_path: Path) -> None:
    file = write(tmp_path / "ring.json", SMALL.encode(), mode=0o640)
    assert sealed_by(KeyRing.from_env({"ULAK_KEY_RING_FILE": str(file)})) == "k2"
    assert sealed_by(KeyRing.from_env({"ULAK_KEY_RING": SMALL})) == "k2"
    with pytest.raises(KeyRingError, match="no key ring: set ULAK_KEY_RING_FILE"):
        KeyRing.from_env({})
    with pytest.raises(KeyRingError, match="both set"):
        KeyRing.from_env({"ULAK_KEY_RING_FILE": str(file), "ULAK_KEY_RING": SMALL})


def test_a_promoted_key_seals_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "ring.json"
    write_ring(file, replace(ULAKS, active="k1"))
    ring = KeyRing.from_file(file)
    assert sealed_by(ring) == "k1"
    write_ring(file, ULAKS)
    assert sealed_by(ring) == "k2"


def test_a_file_that_cannot_be_read_any_more_is_told_and_the_last_key_seals_on(tmp_path: Path) -> None:
    file = write(tmp_path / "ring.json", SMALL.encode())
    ring = KeyRing.from_file(file)
    file.write_bytes(b"{")
    with pytest.warns(KeyRingWarning, match="is not JSON .* key 'k2' goes on sealing"):
        assert sealed_by(ring) == "k2"
    file.unlink()
    with pytest.warns(KeyRingWarning, match="cannot be read"):
        assert sealed_by(ring) == "k2"
    write_ring(file, replace(ULAKS, active="k1"))
    assert sealed_by(ring) == "k1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a key ring like"),
        ("{}", "is not a key ring like"),
        ('{"active": "k9", "keys": {}}', "is not a key ring like"),
        ('{"active": 1, "keys": {"1": "AAAA"}}', "is not a key ring like"),
        ('{"active": "k1", "keys": {"k1": "secret!"}}', "keys in base64"),
        ('{"active": "k1", "keys": {"k1": "c2VjcmV0"}}', "ULAK_KEY_RING: key 'k1' is 6 bytes long"),
        ('{"active": "", "keys": {"": "c2VjcmV0"}}', "key id"),
    ],
)
def test_what_is_no_ring_is_refused_without_its_text(text: str, message: str) -> None:
    with pytest.raises(KeyRingError, match=message) as refused:
        KeyRing.from_env({"ULAK_KEY_RING": text})
    assert "secret" not in str(refused.value)
    assert "c2VjcmV0" not in str(refused.value)


def test_a_ring_that_others_may_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    file = write(tmp_path / "ring.json", SMALL.encode(), mode=0o644)
    with pytest.raises(KeyRingError, match=f"chmod 600 {file}"):
        KeyRing.from_file(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyRingError, match="cannot be read"):
        KeyRing.from_file(tmp_path / "none.json")


def test_repr_shows_no_key() -> None:
    assert repr(SealingKey("k2", KEY)) == "SealingKey(id='k2')"
    assert "k2" not in repr(KeyRing(SealingKey("k2", KEY)))
