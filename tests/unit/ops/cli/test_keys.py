"""`ulak keys`: make, add, promote, rotate, retire, list."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from ops.cli.errors import CommandError
from ops.cli.keys import ROTATION_WAIT_SEC, app, new
from shared.core.sealing import KeyRing, LostKeyError, Purpose, open_sealed, seal
from shared.runtime.keyring import RING_REFRESH_SEC, parse_ring, read_ring, ring_json


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
        "keys": [{"id": "k1", "state": "decrypt-only"}, {"id": "k2", "state": "active"}]
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


def rotate(path: Path, *arguments: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(
        ulak_keys("rotate", "--json", "--file", str(path), "--wait", "0", *arguments)
    )
    return answer


def test_a_rotation_adds_a_key_and_promotes_it(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    ulak_keys("new", "--file", str(path))
    before = read_ring(path)
    sealed = seal(before, Purpose.CONTENT, b"row", b"hello")
    assert rotate(path) == {"active": "k2", "before": "k1", "resumed": False, "file": str(path)}
    after = read_ring(path)
    assert (after.active, list(after.keys)) == ("k2", ["k1", "k2"])
    assert after.lookup_key == before.lookup_key
    assert after.keys["k1"] == before.keys["k1"] != after.keys["k2"]
    assert open_sealed(after, Purpose.CONTENT, b"row", sealed) == b"hello"
    assert rotate(path)["active"] == "k3"


def test_a_rotation_tells_what_every_instance_must_do(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    ulak_keys("new", "--file", str(path))
    told = ulak_keys("rotate", "--file", str(path), "--wait", "0")
    assert "Every instance must have it before it may seal" in told
    assert "Key k2 is active; k1 goes on opening" in told
    body = json.loads(path.read_text())
    assert not any(secret in told for secret in (*body["keys"].values(), body["lookupKey"]))


def test_the_wait_is_longer_than_services_take_to_look() -> None:
    assert ROTATION_WAIT_SEC > RING_REFRESH_SEC


def test_an_interrupted_rotation_goes_on_with_the_key_it_added(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    ulak_keys("new", "--file", str(path))
    command = [sys.executable, "-m", "ops.cli", "keys", "rotate", "--file", str(path), "--wait", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        # Told after the key is in the file and right before the wait.
        assert any("Running services look" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Run `ulak keys rotate` again" in " ".join(told.split())
    stopped = read_ring(path)
    assert (stopped.active, list(stopped.keys)) == ("k1", ["k1", "k2"])
    assert rotate(path) == {"active": "k2", "before": "k1", "resumed": True, "file": str(path)}
    assert read_ring(path).keys == stopped.keys


def test_a_ring_from_the_environment_is_rotated_in_two_installations(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    ulak_keys("new", "--file", str(path))
    installed = [read_ring(path)]
    for step in (1, 2):
        environment = {"ULAK_KEY_RING": ring_json(installed[-1]).decode()}
        plain = CliRunner().invoke(app, ["rotate"], env=environment, catch_exceptions=False)
        assert f"Step {step} of 2" in plain.stderr
        piped = parse_ring(plain.stdout.encode(), "printed")  # the ring and nothing else
        answer = json.loads(CliRunner().invoke(app, ["rotate", "--json"], env=environment).stdout)
        assert (answer["step"], answer["added"]) == (step, "k2")
        assert (piped.active, list(piped.keys)) == (answer["active"], ["k1", "k2"])
        installed.append(parse_ring(answer["ring"].encode(), "answer"))
    assert [ring.active for ring in installed] == ["k1", "k1", "k2"]
    assert installed[1].keys == installed[2].keys
    assert {ring.lookup_key for ring in installed} == {installed[0].lookup_key}


def test_without_a_ring_nothing_is_rotated() -> None:
    with pytest.raises(CommandError, match="ULAK_KEY_RING_FILE"):
        CliRunner().invoke(app, ["rotate"], catch_exceptions=False)


def test_a_key_given_up_by_force_is_recorded_as_lost(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    file = ("--file", str(path))
    ulak_keys("new", *file)
    rotate(path)
    sealed = seal(replace(read_ring(path), active="k1"), Purpose.CONTENT, b"row", b"hello")
    ulak_keys("retire", "k1", "--force", *file)
    ulak_keys("retire", "k9", "--force", *file)  # one that went lost with another ring
    ring = read_ring(path)
    assert list(ring.keys) == ["k2"]
    assert ring.lost == {"k1", "k9"}
    with pytest.raises(LostKeyError):
        open_sealed(ring, Purpose.CONTENT, b"row", sealed)
    assert "k1  lost" in ulak_keys("list", *file)
    assert rotate(path)["active"] == "k10"


@pytest.mark.parametrize(
    ("key_id", "said"), [("k1", "the one that seals"), ("k7", "--force records it as lost"), ("ş", "no key")]
)
def test_what_cannot_be_retired_is_said_before_any_database_is_asked(tmp_path: Path, key_id: str, said: str) -> None:
    path = tmp_path / "ring.json"
    ulak_keys("new", "--file", str(path))
    with pytest.raises(CommandError, match=said):
        ulak_keys("retire", key_id, "--file", str(path))
    with pytest.raises(CommandError):
        ulak_keys("retire", "ş", "--force", "--file", str(path))


def test_a_ring_from_the_environment_is_retired_from_by_installing_another() -> None:
    ring = KeyRing(active="k2", keys={"k1": bytes(32), "k2": bytes(32)}, lookup_key=bytes(32))
    environment = {"ULAK_KEY_RING": ring_json(ring).decode()}
    result = CliRunner().invoke(app, ["retire", "k1", "--force"], env=environment, catch_exceptions=False)
    assert parse_ring(result.stdout.encode(), "printed") == replace(
        ring, keys={"k2": bytes(32)}, lost=frozenset({"k1"})
    )
