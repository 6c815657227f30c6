"""`ulak keys`: make, add, promote, list."""

import json
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from ops.cli.errors import CommandError
from ops.cli.keys import app, new, next_id
from shared.core.sealing import KeyRing, Purpose, open_sealed, seal
from shared.runtime.keyring import read_ring

KEY = bytes(32)


def ulak_keys(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_first_key_is_active_and_its_file_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ring.json"
    ulak_keys("new", "--file", str(path))
    ring = read_ring(path)
    assert (ring.active, list(ring.keys)) == ("k1", ["k1"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0


def test_the_file_is_named_by_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    result = CliRunner().invoke(app, ["new", "--json"], env={"ULAK_KEY_RING_FILE": str(path)}, catch_exceptions=False)
    assert json.loads(result.output) == {"id": "k1", "state": "active", "file": str(path)}


def test_a_second_key_opens_only_until_it_is_promoted(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    file = ("--file", str(path))
    ulak_keys("new", *file)
    before = read_ring(path)
    sealed = seal(before, Purpose.CONTENT, b"row", b"hello")
    ulak_keys("new", *file)
    added = read_ring(path)
    assert (added.active, sorted(added.keys)) == ("k1", ["k1", "k2"])
    ulak_keys("promote", "k2", *file)
    promoted = read_ring(path)
    assert (promoted.active, promoted.keys) == ("k2", added.keys)
    assert promoted.lookup_key == before.lookup_key
    assert open_sealed(promoted, Purpose.CONTENT, b"row", sealed) == b"hello"
    assert json.loads(ulak_keys("list", "--json", *file)) == {
        "keys": [{"id": "k1", "state": "opens only"}, {"id": "k2", "state": "active"}]
    }


def test_no_output_holds_a_key(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    file = ("--file", str(path))
    outputs = [ulak_keys(*command, *file) for command in (["new"], ["new", "--json"], ["promote", "k2"], ["list"])]
    body = json.loads(path.read_text())
    for secret in (*body["keys"].values(), body["lookupKey"]):
        assert not any(secret in output for output in outputs)


def test_promoting_what_is_not_there_names_what_is(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    ulak_keys("new", "--file", str(path))
    with pytest.raises(CommandError, match="k1"):
        ulak_keys("promote", "k9", "--file", str(path))
    assert read_ring(path).active == "k1"


def test_a_broken_ring_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    path.write_text("{")
    path.chmod(0o600)
    with pytest.raises(CommandError, match="not JSON"):
        ulak_keys("new", "--file", str(path))
    assert path.read_text() == "{"


def test_keys_added_at_once_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    threads = [Thread(target=new, kwargs={"file": path}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_ring(path).keys) == [f"k{number}" for number in range(1, 9)]


@pytest.mark.parametrize(
    ("keys", "lost", "following"),
    [(["k1"], [], "k2"), (["k9", "k10"], [], "k11"), (["k1"], ["k7"], "k8"), (["mine"], [], "k1")],
)
def test_an_id_is_never_given_twice(keys: list[str], lost: list[str], following: str) -> None:
    ring = KeyRing(active=keys[0], keys=dict.fromkeys(keys, KEY), lookup_key=KEY, lost=frozenset(lost))
    assert next_id(ring) == following
