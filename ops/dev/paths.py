"""Where the embedded stack keeps its things. Pure: the environment comes in as an argument."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


def project_root() -> Path:
    """The folder that holds the packages `ops`, `services` and `shared`; every child runs with it as its folder."""
    return Path(__file__).resolve().parents[2]


def state_folder(environ: Mapping[str, str], root: Path, cwd: Path) -> Path:
    """One folder per clone: $ULAK_STATE_DIR, else `.ulak` of the clone, else (a wheel) of the folder one is in."""
    chosen = environ.get("ULAK_STATE_DIR")
    if chosen:
        return (cwd / Path(chosen).expanduser()).resolve()
    return (root if (root / "pyproject.toml").is_file() else cwd) / ".ulak"


def cache_folder(environ: Mapping[str, str], home: Path) -> Path:
    """What all clones of a machine share: $ULAK_CACHE_DIR, else $XDG_CACHE_HOME/ulak, else ~/.cache/ulak."""
    chosen = environ.get("ULAK_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().resolve()
    xdg = environ.get("XDG_CACHE_HOME")
    # The XDG specification tells programs to ignore relative paths in it.
    return (Path(xdg) if xdg and Path(xdg).is_absolute() else home / ".cache") / "ulak"


@dataclass(frozen=True, slots=True)
class StackPaths:
    """The files of one stack."""

    state: Path

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    @property
    def lock(self) -> Path:
        """Held by the supervisor as long as it lives."""
        return self.state / "supervisor.lock"

    @property
    def status(self) -> Path:
        return self.state / "status.json"

    @property
    def ports(self) -> Path:
        return self.state / "ports.json"

    @property
    def simulator(self) -> Path:
        """The provider simulator's keys, certificates and `endpoints.json`."""
        return self.state / "simulator"

    @property
    def sample(self) -> Path:
        """What was answered when the sample data was loaded."""
        return self.state / "sample"

    @property
    def key_ring(self) -> Path:
        return self.state / "keys" / "ring.json"

    @property
    def user_token_secret(self) -> Path:
        """What the users' tokens of this stack are signed with."""
        return self.state / "keys" / "user-token-secret"

    @property
    def api_key(self) -> Path:
        return self.state / "keys" / "api-key.json"
