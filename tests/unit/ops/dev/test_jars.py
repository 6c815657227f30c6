"""The lock names coordinates and hashes, never an address, and a file counts only if it is the pinned one."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.dev.errors import StackError
from ops.dev.jars import KAFKA_COORDINATE, LOCK_FILE, PinnedJar, cache_name, ensure_jars, read_lock, write_lock

CONTENT = b"not really a jar"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
JAR = PinnedJar("org.example", "thing", "1.0", "", SHA256)

words = st.from_regex(r"[a-z][a-z0-9_\-]{0,10}", fullmatch=True)


@given(
    st.lists(
        st.builds(PinnedJar, words, words, words, st.one_of(st.just(""), words), st.just(SHA256)),
        unique_by=lambda jar: jar.file_name,
    )
)
def test_round_trip(jars: list[PinnedJar]) -> None:
    assert read_lock(write_lock(jars)) == sorted(jars)


def test_the_checked_in_lock_pins_the_broker_and_holds_no_address() -> None:
    text = LOCK_FILE.read_text(encoding="utf-8")
    jars = read_lock(text)
    assert KAFKA_COORDINATE in {jar.coordinate for jar in jars}
    assert "log4j-slf4j-impl" in {jar.artifact for jar in jars}
    assert "//" not in text
    assert write_lock(jars) == text


@pytest.mark.parametrize(
    "line",
    [
        "org.example:thing:1.0",
        f"org.example:thing sha256:{SHA256}",
        f"org.example:thing:1.0 sha256:{SHA256[:-1]}",
        f"org.example:../thing:1.0 sha256:{SHA256}",
        f"https://example.org/thing.jar sha256:{SHA256}",
    ],
)
def test_a_line_that_is_no_pin_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(StackError, match="Line 2"):
        read_lock(f"# head\n{line}\n")


def test_a_name_twice_is_refused() -> None:
    with pytest.raises(StackError, match="twice"):
        read_lock(write_lock([JAR, PinnedJar("org.other", "thing", "1.0", "", SHA256)]))


def test_only_the_pinned_bytes_match(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.jar", tmp_path / "wrong.jar"
    right.write_bytes(CONTENT)
    wrong.write_bytes(CONTENT + b"!")
    assert JAR.matches(right)
    assert not JAR.matches(wrong)
    assert not JAR.matches(tmp_path / "missing.jar")


def test_a_jar_of_the_machines_own_repository_is_taken_without_a_network(tmp_path: Path) -> None:
    lock = tmp_path / "kafka.lock"
    lock.write_text(write_lock([JAR]))
    repository = tmp_path / "m2"
    JAR.path_in(repository).parent.mkdir(parents=True)
    JAR.path_in(repository).write_bytes(CONTENT)
    environ = {"ULAK_CACHE_DIR": str(tmp_path / "cache"), "M2_REPO": str(repository)}

    folder = ensure_jars(environ, lock=lock)

    assert [file.name for file in folder.iterdir()] == ["thing-1.0.jar"]
    assert folder.name == cache_name(lock.read_text())
    JAR.path_in(repository).unlink()
    assert ensure_jars(environ, lock=lock) == folder


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match="Cannot keep Kafka's jars"):
        ensure_jars({"ULAK_CACHE_DIR": str(tmp_path / "file" / "cache")})
