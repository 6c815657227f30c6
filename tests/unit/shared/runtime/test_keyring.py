"""The key ring's file: what it holds comes back, what is wrong with it is said, and no key is ever shown."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.sealing import KeyRing, Purpose, UnknownKeyError, open_sealed, seal
from shared.runtime.keyring import (
    FileRingSource,
    FixedRingSource,
    KeyRingError,
    KeyRingSettings,
    load_ring_source,
    parse_ring,
    read_ring,
    refreshed,
    ring_json,
    write_ring,
)

KEY = bytes(range(32))
RING = KeyRing(active="k1", keys={"k1": KEY, "k2": KEY[::-1]}, lookup_key=KEY, lost=frozenset({"k0"}))
BODY: dict[str, Any] = orjson.loads(ring_json(RING))
SECRETS = [BODY["keys"]["k1"], BODY["keys"]["k2"], BODY["lookupKey"]]

BYTES_32 = st.binary(min_size=32, max_size=32)
IDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=64)


@given(st.dictionaries(IDS, BYTES_32, min_size=1, max_size=4), BYTES_32, st.data())
def test_roundtrip(keys: dict[str, bytes], lookup: bytes, data: st.DataObject) -> None:
    ring = KeyRing(active=data.draw(st.sampled_from(sorted(keys))), keys=keys, lookup_key=lookup)
    assert parse_ring(ring_json(ring), "x") == ring


def test_a_written_ring_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    write_ring(path, RING)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_ring(path) == RING
    assert [entry.name for entry in tmp_path.iterdir()] == ["ring.json"]


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
def test_owner_and_reading_group_are_fine(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "ring.json"
    write_ring(path, RING)
    path.chmod(mode)
    assert read_ring(path) == RING


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o660, 0o777, 0o601])
def test_a_ring_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "ring.json"
    write_ring(path, RING)
    path.chmod(mode)
    with pytest.raises(KeyRingError, match=rf"mode {mode:04o}.*chmod 600"):
        read_ring(path)


def test_a_missing_ring_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(KeyRingError, match="ulak keys new"):
        read_ring(tmp_path / "none.json")


def without(field: str) -> dict[str, Any]:
    return {key: value for key, value in BODY.items() if key != field}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(ring_json(RING)[:-40], "not JSON", id="cut"),
        pytest.param(b"[]", "another shape", id="list"),
        pytest.param(b"null", "another shape", id="null"),
        pytest.param(without("active"), "lacks 'active'", id="no-active"),
        pytest.param(without("keys"), "lacks 'keys'", id="no-keys"),
        pytest.param(without("lookupKey"), "lacks 'lookupKey'", id="no-lookup-key"),
        pytest.param({**BODY, "keys": []}, "another shape", id="keys-are-a-list"),
        pytest.param({**BODY, "active": 7}, "key id", id="active-is-a-number"),
        pytest.param({**BODY, "active": "k9"}, "k9", id="active-is-not-there"),
        pytest.param({**BODY, "keys": {"k1": "AAAA"}}, "3 bytes", id="short-key"),
        pytest.param({**BODY, "keys": {"k1": "***"}}, "not base64", id="no-base64"),
        pytest.param({**BODY, "keys": {"k1": 7}}, "not base64", id="key-is-a-number"),
        pytest.param({**BODY, "lookupKey": None}, "not base64", id="no-lookup"),
        pytest.param({**BODY, "lost": ["k1"]}, "lost", id="lost-and-there"),
        pytest.param({**BODY, "lost": [7]}, "key id", id="lost-is-a-number"),
    ],
)
def test_a_ring_that_is_not_right_is_refused_without_showing_it(data: Any, said: str) -> None:
    with pytest.raises(KeyRingError, match=said) as caught:
        parse_ring(data if isinstance(data, bytes) else orjson.dumps(data), "ring.json")
    assert "ring.json" in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:  # nor by what it was raised from, when somebody logs the trace
        assert not any(secret in repr(error) for secret in SECRETS)
        error = error.__cause__


def test_a_key_that_was_added_is_found_by_looking_again(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    write_ring(path, KeyRing(active="k1", keys={"k1": KEY}, lookup_key=KEY))
    source = FileRingSource(path)
    elsewhere = KeyRing(active="k2", keys=RING.keys, lookup_key=KEY)
    sealed = seal(elsewhere, Purpose.CONTENT, b"row", b"hello")
    with pytest.raises(UnknownKeyError):
        open_sealed(source.ring, Purpose.CONTENT, b"row", sealed)
    assert source.refresh() is False
    write_ring(path, elsewhere)
    assert source.refresh() is True
    assert open_sealed(source.ring, Purpose.CONTENT, b"row", sealed) == b"hello"
    assert source.refresh() is False


@pytest.mark.parametrize("break_it", [lambda p: p.unlink(), lambda p: p.write_text("{"), lambda p: p.chmod(0o644)])
def test_a_ring_that_breaks_while_in_use_is_kept(tmp_path: Path, break_it: Callable[[Path], object]) -> None:
    path = tmp_path / "ring.json"
    write_ring(path, RING)
    source = FileRingSource(path)
    break_it(path)
    if path.exists() and path.read_bytes() == ring_json(RING):
        os.utime(path, ns=(1, 1))  # a mode alone is no new content; a touched file is looked at
    with pytest.raises(KeyRingError):
        source.refresh()
    assert source.ring == RING


class Watched:
    """A source that tells when it was looked at, and cannot be read the first time."""

    def __init__(self, source: FileRingSource) -> None:
        self._source = source
        self._readable = False
        self.looked = asyncio.Event()

    @property
    def ring(self) -> KeyRing:
        return self._source.ring

    def refresh(self) -> bool:
        if not self._readable:
            self._readable = True
            raise KeyRingError("on its way")
        self.looked.set()
        return self._source.refresh()


async def test_a_promoted_key_is_taken_up_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    write_ring(path, RING)
    source = Watched(FileRingSource(path))
    async with refreshed(source, every_sec=0.001), asyncio.timeout(10):
        await source.looked.wait()
        assert source.ring.active == "k1"
        write_ring(path, replace(RING, active="k2"))
        source.looked.clear()
        await source.looked.wait()
        assert source.ring.active == "k2"


def test_settings_name_one_source(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    write_ring(path, RING)
    assert load_ring_source(KeyRingSettings(ring_file=path)).ring == RING
    fixed = load_ring_source(KeyRingSettings(ring=ring_json(RING).decode()))
    assert (fixed.ring, fixed.refresh()) == (RING, False)
    with pytest.raises(KeyRingError, match="both set"):
        load_ring_source(KeyRingSettings(ring_file=path, ring="{}"))
    with pytest.raises(KeyRingError, match="ulak keys new"):
        load_ring_source(KeyRingSettings())


def test_nothing_shows_a_key() -> None:
    settings = KeyRingSettings(ring=ring_json(RING).decode())
    assert not any(secret in repr(shown) for secret in SECRETS for shown in (settings, FixedRingSource(RING)))
