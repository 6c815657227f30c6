"""What is missing is named, and what to do about it."""

import errno
import os
from pathlib import Path

import pytest

from ops.dev.errors import explain_os_error
from ops.dev.paths import cache_folder, state_folder
from ops.dev.servers.contract import last_words
from ops.dev.servers.kafka import configuration, new_cluster_id
from ops.dev.watchdog import still_listed


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "ULAK_STATE_DIR"),
        (errno.EROFS, "ULAK_STATE_DIR"),
        (errno.ENOTDIR, "Something else is in its place"),
        (errno.EADDRINUSE, "run the command again"),
        (errno.EMFILE, "ulimit"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_the_systems_refusal_has_a_remedy(number: int, remedy: str) -> None:
    sentence = str(explain_os_error(OSError(number, os.strerror(number), "/state/x"), "write the state"))
    assert sentence.startswith("Cannot write the state (/state/x). ")
    assert remedy in sentence


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", "it ended without a word."),
        ("starting\nFATAL: bad thing\nshutting down\n", "FATAL: bad thing."),
        ("one\ntwo.\n", "two."),
        ("PANIC: could not write: No space left on device\n", "the disk is full."),
        ("bind: Address already in use\n", "its port was taken"),
    ],
)
def test_last_words(output: str, words: str) -> None:
    assert last_words(output).startswith(words)


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, "/home/a/.cache/ulak"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/ulak"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/a/.cache/ulak"),
        ({"XDG_CACHE_HOME": "/cache", "ULAK_CACHE_DIR": "/own"}, "/own"),
    ],
)
def test_cache_folder(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ, Path("/home/a")) == Path(folder)


def test_state_folder(tmp_path: Path) -> None:
    clone, elsewhere = tmp_path / "clone", tmp_path / "elsewhere"
    clone.mkdir()
    assert state_folder({}, clone, elsewhere) == elsewhere / ".ulak"
    (clone / "pyproject.toml").write_text("")
    assert state_folder({}, clone, elsewhere) == clone / ".ulak"
    assert state_folder({"ULAK_STATE_DIR": "own"}, clone, elsewhere) == elsewhere / "own"


@pytest.mark.parametrize(
    ("lines", "groups"),
    [
        ([], {}),
        (["+10 9\n", "+11 3\n"], {10: 9, 11: 3}),
        (["+10 9\n", "+11 9\n", "-10\n"], {11: 9}),
        (["-10\n", "+10 9\n"], {10: 9}),
        (["+10 9\n", "-10\n", "+10 3\n"], {10: 3}),
    ],
)
def test_the_watchdog_knows_who_still_lives(lines: list[str], groups: dict[int, int]) -> None:
    assert still_listed(lines) == groups


def test_kafka_is_configured_for_a_folder_with_any_name() -> None:
    lines = configuration(Path("/data/ş\\x"), 1, 2).splitlines()
    assert "log.dirs=/data/\\u015f\\\\x" in lines
    assert "auto.create.topics.enable=false" in lines
    assert "advertised.listeners=PLAINTEXT://127.0.0.1:1" in lines


def test_cluster_ids_are_what_kafka_takes() -> None:
    ids = {new_cluster_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(len(text) == 22 and not text.startswith("-") for text in ids)
