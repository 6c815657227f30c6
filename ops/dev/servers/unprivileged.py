"""Running PostgreSQL when the caller is root, whom PostgreSQL refuses.

Root gives up its rights for that one process and becomes an account that owns nothing (`nobody`). Such an account
must reach the programs and the data, and often cannot: a clone or a home under /root (mode 0700) is closed to it.
So whatever it cannot reach goes to /var/tmp, which every system has, which survives a reboot, and which everybody
may enter: the programs as a copy that root owns, shared by all clones; the data in a folder named after the state
folder that the account owns. A user namespace would avoid the copy, but containers and hardened kernels forbid it.
"""

import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path

from ops.dev.errors import StackError
from ops.dev.processes import User

OUTSIDE = Path("/var/tmp")  # noqa: S108 - the folder's own owner and mode are checked before it is used


def account_for_postgres() -> User | None:
    """The account to run as: None for the caller's own when that is not root.

    It needs an entry in the system's list of users, because PostgreSQL looks up its own name.
    """
    if os.geteuid() != 0:
        return None
    entries = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    entry = entries.get("nobody") or next(iter(entries.values()), None)
    if entry is None:
        raise StackError(
            "PostgreSQL may not run as root, and this system has no other account to run it as. "
            "Add one (for instance `useradd ulak`), or set ULAK_POSTGRES_DSN to a PostgreSQL that is already there."
        )
    return User(entry.pw_uid, entry.pw_gid)


def is_open_to_all(path: Path) -> bool:
    """Whether an account that owns nothing may walk to `path`: every folder above it lets others pass.

    Folders that are not there yet count as passable, as the usual umask makes them.
    """
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.resolve().parents if folder.exists())


def reachable_copy(package: Path, libraries: Path, version: str) -> Path:
    """`package` itself where everybody can reach it, else a copy of it and of `libraries` that everybody can.

    Both keep their places to each other: the programs find their libraries by a relative path.
    """
    if is_open_to_all(package / "pginstall" / "bin" / "postgres"):
        return package
    key = hashlib.sha256(f"{version}\0{package.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    target = owned_by_root(OUTSIDE / f"ulak-postgres-{version}-{key}")
    copied = target / package.name
    if not copied.is_dir():
        with tempfile.TemporaryDirectory(prefix=".copy-", dir=target) as scratch:
            shutil.copytree(package / "pginstall", Path(scratch, package.name, "pginstall"), symlinks=True)
            if libraries.is_dir() and not (target / libraries.name).is_dir():
                shutil.copytree(libraries, Path(scratch, libraries.name))
                _move_in(Path(scratch, libraries.name), target / libraries.name)
            _move_in(Path(scratch, package.name), copied)
    return copied


def _move_in(draft: Path, final: Path) -> None:
    try:
        draft.rename(final)
    except OSError:
        # Another clone finished the same copy between our look and our rename.
        if not final.is_dir():
            raise


def data_folder(state: Path, user: User | None) -> Path:
    """Where PostgreSQL's data goes: inside the state folder where its account can reach it, else under /var/tmp."""
    inside = state / "postgres" / "data"
    if user is None or is_open_to_all(inside):
        return inside
    key = hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:16]
    return OUTSIDE / f"ulak-data-{key}" / "data"


def is_data_outside(data: Path) -> bool:
    """Whether `data` is a folder that `data_folder` put under /var/tmp, and nothing else."""
    return data.name == "data" and data.parent.parent == OUTSIDE and data.parent.name.startswith("ulak-data-")


def owned_by_root(folder: Path) -> Path:
    """Make `folder` (mode 0755) or check that it is ours.

    Anybody may write to /var/tmp, so a folder of that name that somebody else put there is refused, not used.
    """
    folder.mkdir(mode=0o755, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise StackError(
            f"{folder} belongs to somebody else or may be written by others, so it is not used. "
            "Remove it (as root), then try again."
        )
    folder.chmod(0o755)
    return folder
