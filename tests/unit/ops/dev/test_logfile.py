"""Logs stay bounded while they are written, and can be followed across that."""

from pathlib import Path

from ops.dev.files import secret_in, tail, write_private
from ops.dev.logfile import bound, follow


def test_a_long_log_moves_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "relay.log"
    with log.open("ab") as writer:
        writer.write(b"old\n" * 10)
        writer.flush()
        assert not bound(log, largest_bytes=40)
        assert bound(log, largest_bytes=39)
        writer.write(b"new\n")
    assert log.read_bytes() == b"new\n"
    assert (tmp_path / "relay.log.1").read_bytes() == b"old\n" * 10
    assert not bound(tmp_path / "missing.log")


def test_following_yields_whole_new_lines_also_after_a_truncation(tmp_path: Path) -> None:
    log = tmp_path / "relay.log"
    log.write_bytes(b"before\n")
    looks = iter([b"one\ntwo\nhalf", b" a line\n", None, b"fresh\n"])

    def look() -> bool:
        # Called before each pass over the logs: writes what the pass then finds.
        written = next(looks, b"")
        with log.open("ab") as file:
            if written is None:
                file.truncate(0)
            else:
                file.write(written)
        return written == b"fresh\n"

    assert [line for _, line in follow([log], look, lambda _: None)] == ["one", "two", "half a line", "fresh"]


def test_tail(tmp_path: Path) -> None:
    log = tmp_path / "relay.log"
    log.write_text("a\nb\nc\n")
    assert tail(log, 2) == ["b", "c"]
    assert tail(log, 0) == []
    assert tail(tmp_path / "missing.log", 5) == []


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    first = secret_in(tmp_path / "password")
    assert secret_in(tmp_path / "password") == first
    assert len(first) == 32
    write_private(tmp_path / "password", "other")
    assert secret_in(tmp_path / "password") == "other"
