"""One contract, two places: what every storage promises who reads and deletes by reference."""

import asyncio
import secrets

import pytest

from shared.core.storage import InvalidRefError, MissingFileError, StorageError, TooLargeError
from shared.storage.client import open_storage
from shared.storage.settings import StorageSettings
from tests.contract.storage.place import Place

NAMES = [
    "1.pdf",
    "faturalar/2026/Şubat/Çiğdem Öztürk – ıİğüş.pdf",
    "with space + plus & and #hash?.pdf",
    "%2e%2e/percent%20is%20literal.pdf",
    "فاتورة/一.pdf",
    "...dots../..a/.hidden",
]


async def read(settings: StorageSettings, ref: str, *, max_bytes: int = 10_000_000) -> bytes:
    async with open_storage(settings) as storage:
        return await storage.read(ref, max_bytes=max_bytes, timeout_sec=20)


@pytest.mark.parametrize("name", NAMES)
async def test_the_file_that_was_put_is_read(place: Place, name: str) -> None:
    content = secrets.token_bytes(1000)
    await place.put("decoy", b"another file")
    assert await read(place.settings, await place.put(name, content)) == content


@pytest.mark.parametrize("size", [0, 1, 262_143, 262_144, 262_145, 3_000_001])
async def test_every_size_is_read_whole_up_to_the_limit(place: Place, size: int) -> None:
    content = secrets.token_bytes(size)
    ref = await place.put("a/file.bin", content)
    assert await read(place.settings, ref, max_bytes=size) == content
    if size:
        with pytest.raises(TooLargeError, match=rf"larger than {size - 1} bytes"):
            await read(place.settings, ref, max_bytes=size - 1)


async def test_a_missing_file_is_told(place: Place) -> None:
    await place.put("a/1.pdf", b"x")
    for path in ("a/2.pdf", "b/1.pdf", "a/1.pdf/below-a-file"):
        with pytest.raises(MissingFileError):
            await read(place.settings, place.ref(path))


async def test_a_deleted_file_is_gone_and_may_be_deleted_again(place: Place) -> None:
    ref = await place.put("outgoing/ek dosya.pdf", b"x")
    neighbour = await place.put("outgoing/neighbour.pdf", b"stays")
    async with open_storage(place.settings) as storage:
        assert storage.owns(ref)
        await storage.delete(ref)
        with pytest.raises(MissingFileError):
            await storage.read(ref, max_bytes=10, timeout_sec=20)
        await storage.delete(ref)
        await storage.delete(place.ref("outgoing/never/was.pdf"))
        assert await storage.read(neighbour, max_bytes=10, timeout_sec=20) == b"stays"


@pytest.mark.parametrize("path", ["invoices/1.pdf", "outgoing-other/1.pdf", "outgoing"])
async def test_a_foreign_file_is_never_deleted(place: Place, path: str) -> None:
    ref = await place.put(path, b"stays")
    async with open_storage(place.settings) as storage:
        assert not storage.owns(ref)
        with pytest.raises(InvalidRefError, match="ULAK_STORAGE_OWNED"):
            await storage.delete(ref)
        assert await storage.read(ref, max_bytes=10, timeout_sec=20) == b"stays"


async def test_many_reads_at_once(place: Place) -> None:
    contents = {f"many/{number}": secrets.token_bytes(50_000) for number in range(40)}
    refs = [await place.put(path, content) for path, content in contents.items()]
    async with open_storage(place.settings) as storage:
        found = await asyncio.gather(*[storage.read(ref, max_bytes=50_000, timeout_sec=20) for ref in refs])
    assert found == list(contents.values())


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("file:a/../../etc/passwd", r"'\.\.'"),
        ("s3://not-allowed/ada-lovelace.pdf", "ULAK_STORAGE_S3_BUCKETS"),
        ("http://elsewhere/ada-lovelace.pdf", "begins with file: or s3://"),
    ],
)
async def test_what_is_not_configured_is_refused(place: Place, ref: str, said: str) -> None:
    async with open_storage(place.settings) as storage:
        with pytest.raises(InvalidRefError, match=said):
            await storage.read(ref, max_bytes=10, timeout_sec=20)
        with pytest.raises(InvalidRefError):
            await storage.delete(ref)
        assert not storage.owns(ref)


@pytest.mark.parametrize("unset", ["file:ada-lovelace.pdf", "s3://ulak-test/ada-lovelace.pdf"])
async def test_nothing_configured_refuses_all(unset: str) -> None:
    with pytest.raises(InvalidRefError, match=r"set ULAK_STORAGE_FOLDER|add it to ULAK_STORAGE_S3_BUCKETS"):
        await read(StorageSettings(), unset)


async def test_no_error_holds_the_file_s_name(place: Place) -> None:
    refs = [
        await place.put("large-ada-lovelace.pdf", b"12345678"),
        place.ref("missing-ada-lovelace.pdf"),
        place.ref("x/../ada-lovelace.pdf"),
        "s3://ada-lovelace/x.pdf",
    ]
    for ref in refs:
        with pytest.raises(StorageError) as caught:
            await read(place.settings, ref, max_bytes=4)
        error: BaseException | None = caught.value
        while error is not None:  # nor what a logged trace shows
            assert "lovelace" not in f"{error!r} {error}"
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
