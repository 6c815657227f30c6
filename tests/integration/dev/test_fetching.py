"""Kafka's jars from a repository: fetched once, checked, and refused when they are not the pinned ones."""

import gc
import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ops.dev.errors import StackError
from ops.dev.jars import PinnedJar, ensure_jars, write_lock
from ops.dev.paths import project_root

JARS = [
    PinnedJar("org.example", f"thing{number}", "1.0", "", hashlib.sha256(b"jar %d" % number).hexdigest())
    for number in range(12)
]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "remote"
    for number, jar in enumerate(JARS):
        jar.path_in(folder).parent.mkdir(parents=True)
        jar.path_in(folder).write_bytes(b"jar %d" % number)
    return folder


@pytest.fixture
def environ(tmp_path: Path, repository: Path) -> Iterator[dict[str, str]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(repository)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield {
        "ULAK_CACHE_DIR": str(tmp_path / "cache"),
        "M2_REPO": str(tmp_path / "empty"),
        "ULAK_MAVEN_REPOSITORY_URL": f"http://127.0.0.1:{server.server_port}",
    }
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "kafka.lock"
    path.write_text(write_lock(JARS))
    return path


def test_fetched_once_for_the_machine(environ: dict[str, str], lock: Path, repository: Path) -> None:
    folder = ensure_jars(environ, lock=lock)
    assert {file.name for file in folder.iterdir()} == {jar.file_name for jar in JARS}
    JARS[0].path_in(repository).unlink()
    assert ensure_jars(environ, lock=lock) == folder
    assert {item.name for item in folder.parent.iterdir()} == {"kafka.lock", folder.name}


def test_other_bytes_are_refused_and_not_kept(
    environ: dict[str, str], lock: Path, repository: Path, tmp_path: Path
) -> None:
    JARS[3].path_in(repository).write_bytes(b"something else")
    with pytest.raises(StackError, match=r"org\.example:thing3:1\.0 .* sha256 differs"):
        ensure_jars(environ, lock=lock)
    assert [item.name for item in (tmp_path / "cache").iterdir()] == ["kafka.lock"]


def test_other_bytes_in_the_machines_own_repository_are_fetched_afresh(
    environ: dict[str, str], lock: Path, tmp_path: Path
) -> None:
    local = JARS[5].path_in(tmp_path / "empty")
    local.parent.mkdir(parents=True)
    local.write_bytes(b"half a downl")
    folder = ensure_jars(environ, lock=lock)
    assert JARS[5].matches(folder / JARS[5].file_name)


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # jgo leaves an answer of 404 unread
@pytest.mark.parametrize("address", ["http://127.0.0.1:1", None])
def test_no_network_or_no_such_jar_is_a_sentence(
    environ: dict[str, str], lock: Path, repository: Path, address: str | None
) -> None:
    JARS[0].path_in(repository).unlink()
    environ = {**environ, "ULAK_MAVEN_REPOSITORY_URL": address or environ["ULAK_MAVEN_REPOSITORY_URL"]}
    with pytest.raises(StackError, match=r"The first start needs the network once"):
        ensure_jars(environ, lock=lock)
    gc.collect()


def test_two_clones_at_once(environ: dict[str, str], lock: Path) -> None:
    script = (
        "import os; from pathlib import Path; from ops.dev.jars import ensure_jars;"
        f"print(ensure_jars(os.environ, lock=Path({str(lock)!r})))"
    )
    clones = [
        subprocess.Popen(
            [sys.executable, "-c", script], env=environ, cwd=project_root(), stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    folders = {clone.communicate(timeout=60)[0].strip() for clone in clones}
    assert [clone.returncode for clone in clones] == [0, 0, 0]
    (folder,) = folders
    assert len(list(Path(folder).iterdir())) == len(JARS)
