"""Kafka's jars: named and pinned in `kafka.lock`, fetched once per machine, checked by their sha256.

`kafka.lock` names Maven coordinates and hashes, never an address; the resolver `jgo` knows where Maven Central is
($ULAK_MAVEN_REPOSITORY_URL names a mirror). To move to another release, edit KAFKA_COORDINATE and run
`python -m ops.dev.jars lock`, which resolves the tree afresh and rewrites the lock.
"""

import fcntl
import hashlib
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ops.dev.errors import StackError, explain_os_error
from ops.dev.paths import cache_folder

KAFKA_COORDINATE = "org.apache.kafka:kafka_2.13:4.4.0"
# Kafka's POM leaves the binding of slf4j to the distribution: without it the broker logs nothing at all.
LOGGING_ARTIFACT = "org.apache.logging.log4j:log4j-slf4j-impl"
LOCK_FILE = Path(__file__).with_name("kafka.lock")
_FETCH_THREADS = 8
_HTTP_TIMEOUT_SEC = 30
_SAY_EVERY = 10

_LINE = re.compile(
    r"(?P<group>[\w.\-]+):(?P<artifact>[\w.\-]+):(?P<version>[\w.\-]+)(?::(?P<classifier>[\w.\-]+))? "
    r"sha256:(?P<sha256>[0-9a-f]{64})"
)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, order=True)
class PinnedJar:
    """One line of the lock."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def file_name(self) -> str:
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{suffix}.jar"

    @property
    def coordinate(self) -> str:
        return ":".join(part for part in (self.group, self.artifact, self.version, self.classifier) if part)

    def path_in(self, repository: Path) -> Path:
        """Where a Maven repository's folder keeps it."""
        return repository.joinpath(*self.group.split("."), self.artifact, self.version, self.file_name)

    def matches(self, path: Path) -> bool:
        """Whether the file is there and is byte for byte the pinned one."""
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except FileNotFoundError:
            return False


def read_lock(text: str) -> list[PinnedJar]:
    """The pinned jars, in the lock's order. Raises StackError with the line number for a line that is none."""
    jars = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise StackError(
                f"Line {number} of kafka.lock is not `group:artifact:version sha256:<64 hex digits>`. "
                "Restore the file from version control, or run `python -m ops.dev.jars lock`."
            )
        jars.append(PinnedJar(**{name: value or "" for name, value in match.groupdict().items()}))
    if len({jar.file_name for jar in jars}) != len(jars):
        raise StackError("kafka.lock names a jar twice. Restore the file from version control.")
    return jars


def write_lock(jars: Sequence[PinnedJar]) -> str:
    """The lock's text; `read_lock` gives the same jars back, sorted."""
    head = f"# The class path of {KAFKA_COORDINATE}. Written by `python -m ops.dev.jars lock`; do not edit by hand.\n"
    return head + "".join(f"{jar.coordinate} sha256:{jar.sha256}\n" for jar in sorted(jars))


def cache_name(lock_text: str) -> str:
    """The folder of one lock's jars in the cache; another lock has another folder, so releases live side by side."""
    pins = "".join(f"{jar.coordinate} {jar.sha256}\n" for jar in sorted(read_lock(lock_text)))
    return f"kafka-{KAFKA_COORDINATE.rpartition(':')[2]}-{hashlib.sha256(pins.encode()).hexdigest()[:16]}"


def cached_jars(environ: Mapping[str, str], lock: Path = LOCK_FILE) -> Path | None:
    """The folder with the jars of `lock`, if this machine has it. Complete whenever it is there."""
    folder = cache_folder(environ, Path.home()) / cache_name(lock.read_text(encoding="utf-8"))
    # It appears by one rename after every jar in it was verified.
    return folder if folder.is_dir() else None


def ensure_jars(environ: Mapping[str, str], say: Progress = lambda _: None, lock: Path = LOCK_FILE) -> Path:
    """The folder with Kafka's jars, fetched first if this machine has none yet. Blocks: seconds with a network, once.

    Safe when several clones call it at once: one fetches, the others wait. A jar whose hash differs is refused.
    Raises StackError when the jars cannot be had.
    """
    cached = cached_jars(environ, lock)
    if cached is not None:
        return cached
    lock_text = lock.read_text(encoding="utf-8")
    cache = cache_folder(environ, Path.home())
    folder = cache / cache_name(lock_text)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _exclusive(cache / "kafka.lock"):
            if not folder.is_dir():
                for abandoned in cache.glob(".fetch-*"):  # of a run that was killed; nobody else fetches now
                    shutil.rmtree(abandoned, ignore_errors=True)
                _fetch_all(read_lock(lock_text), folder, environ, say)
    except OSError as error:
        # requests' errors are OSErrors too; they were translated in _fetch, so this one is of the disk.
        raise explain_os_error(error, f"keep Kafka's jars in {cache}") from error
    return folder


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch_all(jars: Sequence[PinnedJar], folder: Path, environ: Mapping[str, str], say: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as scratch:
        draft = Path(scratch) / "jars"
        draft.mkdir(mode=0o755)
        say(f"Fetching Kafka's {len(jars)} jars (once per machine)")
        with ThreadPoolExecutor(_FETCH_THREADS, thread_name_prefix="jars") as pool:
            fetched = [pool.submit(_fetch, jar, draft, Path(scratch) / "repository", environ) for jar in jars]
            for number, future in enumerate(fetched, start=1):
                try:
                    future.result()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
                if number % _SAY_EVERY == 0:
                    say(f"Fetching Kafka's jars: {number} of {len(jars)}")
        draft.rename(folder)


def _fetch(jar: PinnedJar, draft: Path, repository: Path, environ: Mapping[str, str]) -> None:
    local = jar.path_in(Path(environ.get("M2_REPO") or Path.home() / ".m2" / "repository"))
    if jar.matches(local):
        shutil.copyfile(local, draft / jar.file_name)
        return
    downloaded = _download(jar, repository, environ)
    if not jar.matches(downloaded):
        raise StackError(
            f"{jar.coordinate} was fetched but is not the pinned one (its sha256 differs), so it was thrown away. "
            "Check the proxy or mirror between this machine and Maven Central, then try again."
        )
    downloaded.rename(draft / jar.file_name)


def _download(jar: PinnedJar, repository: Path, environ: Mapping[str, str]) -> Path:
    try:
        import requests
        from jgo.maven import MavenContext
    except ImportError as error:
        raise StackError(
            "The package jgo, which fetches Kafka's jars, is not installed. Install `ulak[embedded]`, "
            "or set ULAK_KAFKA_BOOTSTRAP_SERVERS to a broker that is already there."
        ) from error
    logging.getLogger("jgo").setLevel(logging.ERROR)
    mirror = environ.get("ULAK_MAVEN_REPOSITORY_URL")
    context = MavenContext(
        repo_cache=repository,
        local_repos=[],
        remote_repos={"mirror": mirror.rstrip("/")} if mirror else None,
        timeout=_HTTP_TIMEOUT_SEC,
    )
    artifact = context.project(jar.group, jar.artifact).at_version(jar.version).artifact(classifier=jar.classifier)
    try:
        return Path(artifact.resolve())
    except (requests.RequestException, RuntimeError) as error:
        raise StackError(
            f"Cannot fetch {jar.coordinate}: {type(error).__name__}. The first start needs the network once, to load "
            "Kafka's jars from Maven Central. Connect it (or set HTTPS_PROXY, or ULAK_MAVEN_REPOSITORY_URL to a "
            "mirror), or set ULAK_KAFKA_BOOTSTRAP_SERVERS to a broker that is already there."
        ) from error


def resolve() -> list[PinnedJar]:
    """Resolve the dependency tree of KAFKA_COORDINATE afresh and hash every jar of it; downloads all of them."""
    from jgo.maven import MavenContext

    with tempfile.TemporaryDirectory(prefix="ulak-jars-") as scratch:
        context = MavenContext(repo_cache=Path(scratch), local_repos=[], timeout=_HTTP_TIMEOUT_SEC)
        _, nodes = context.resolver.get_dependency_list([context.create_dependency(KAFKA_COORDINATE)])
        artifacts = [
            context.project(*KAFKA_COORDINATE.split(":")[:2]).at_version(KAFKA_COORDINATE.split(":")[2]).artifact(),
            *(node.dep.artifact for node in nodes),
        ]
        log4j = next(item.version for item in artifacts if item.artifactId == "log4j-core")
        artifacts.append(context.project(*LOGGING_ARTIFACT.split(":")).at_version(log4j).artifact())
        with ThreadPoolExecutor(_FETCH_THREADS) as pool:
            files = list(pool.map(lambda item: Path(item.resolve()), artifacts))
        return [
            PinnedJar(
                group=item.groupId,
                artifact=item.artifactId,
                version=item.version,
                classifier=item.classifier,
                sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
            )
            for item, file in zip(artifacts, files, strict=True)
        ]


def main(arguments: Sequence[str]) -> None:
    """`fetch` makes the jars be there; `lock` rewrites the lock file."""
    match list(arguments):
        case ["fetch"]:
            ensure_jars(os.environ, lambda text: print(text, flush=True))
        case ["lock"]:
            LOCK_FILE.write_text(write_lock(resolve()), encoding="utf-8")
            print(f"{os.path.relpath(LOCK_FILE)} written.")
        case _:
            sys.exit("Usage: python -m ops.dev.jars fetch|lock")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except StackError as refused:
        sys.exit(str(refused))
