"""What a folder keeps from whoever writes references, or files: links, pipes, devices, growing files."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.core.storage import (
    InvalidRefError,
    MissingFileError,
    Storage,
    StorageUnavailableError,
    TooLargeError,
)
from shared.storage.client import open_storage
from shared.storage.settings import StorageSettings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder beside which lies a file that no reference may reach."""
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "root" / "outgoing").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
async def storage(root: Path) -> AsyncIterator[Storage]:
    async with open_storage(StorageSettings(folder=root, owned="file:outgoing/")) as opened:
        yield opened


async def read(storage: Storage, ref: str, *, max_bytes: int = 1000) -> bytes:
    return await storage.read(ref, max_bytes=max_bytes, timeout_sec=10)


@pytest.mark.parametrize("target", ["../secret", "{tmp}/secret", "../root-not/../secret", "/etc/hostname"])
async def test_a_link_out_of_the_folder_is_refused(storage: Storage, root: Path, target: str) -> None:
    (root.parent / "root-not").mkdir()
    (root / "link").symlink_to(target.format(tmp=root.parent))
    (root / "dir").symlink_to("..")
    with pytest.raises(InvalidRefError, match="symlink out of ULAK_STORAGE_FOLDER"):
        await read(storage, "file:link")
    with pytest.raises(InvalidRefError, match="symlink out of ULAK_STORAGE_FOLDER"):
        await read(storage, "file:dir/secret")


async def test_a_link_within_the_folder_is_followed(storage: Storage, root: Path) -> None:
    """As Kubernetes mounts its volumes: every file a link into `..data`, itself a link to the present version."""
    (root / "..2026").mkdir()
    (root / "..2026" / "logo.png").write_bytes(b"png")
    (root / "..data").symlink_to("..2026")
    (root / "logo.png").symlink_to("..data/logo.png")
    assert await read(storage, "file:logo.png") == b"png"


async def test_the_folder_itself_may_be_a_link(root: Path) -> None:
    (root / "a").write_bytes(b"a")
    (root.parent / "current").symlink_to(root)
    async with open_storage(StorageSettings(folder=root.parent / "current")) as storage:
        assert await read(storage, "file:a") == b"a"


async def test_links_in_a_circle_are_refused(storage: Storage, root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(InvalidRefError, match="symlink"):
        await read(storage, "file:a")


async def test_what_is_no_file_is_missing_and_waits_for_nobody(storage: Storage, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "self").symlink_to(".")
    for path in ("pipe", "outgoing", "self", "n" * 300):
        with pytest.raises(MissingFileError):
            await read(storage, f"file:{path}")


async def test_deleting_follows_no_link(storage: Storage, root: Path) -> None:
    (root / "templates").mkdir()
    (root / "templates" / "logo.png").write_bytes(b"png")
    (root / "outgoing" / "logo.png").symlink_to("../templates/logo.png")
    (root / "outgoing" / "dir").symlink_to("../templates")
    with pytest.raises(InvalidRefError, match="symlink"):
        await storage.delete("file:outgoing/dir/logo.png")
    await storage.delete("file:outgoing/logo.png")
    assert not (root / "outgoing" / "logo.png").is_symlink()
    assert await read(storage, "file:templates/logo.png") == b"png"


async def test_deleting_leaves_folders(storage: Storage, root: Path) -> None:
    (root / "outgoing" / "dir").mkdir()
    await storage.delete("file:outgoing/dir")
    assert (root / "outgoing" / "dir").is_dir()


async def test_a_folder_that_is_not_mounted_is_transient(tmp_path: Path) -> None:
    """A volume that comes back must not have cost the messages that waited for it."""
    async with open_storage(StorageSettings(folder=tmp_path / "gone", owned="file:outgoing/")) as storage:
        for action in (read(storage, "file:a"), storage.delete("file:outgoing/a")):
            with pytest.raises(StorageUnavailableError, match="mounted"):
                await action


async def test_a_huge_file_is_refused_unread(storage: Storage, root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 42)  # sparse: reading it would take the memory, and hours
    with pytest.raises(TooLargeError):
        await read(storage, "file:huge")


async def test_bytes_are_counted_whatever_the_size_was_said_to_be() -> None:
    """Files of /proc say 0 and have content, as a file that grows between looking and reading."""
    async with open_storage(StorageSettings(folder=Path("/proc/self"))) as storage:
        assert len(await read(storage, "file:status", max_bytes=100_000)) > 100
        with pytest.raises(TooLargeError):
            await read(storage, "file:status", max_bytes=100)
