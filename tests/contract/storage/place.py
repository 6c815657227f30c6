"""Where the contract's files are: what a storage's user cannot do, putting files there, each place does its own way."""

from pathlib import Path
from typing import Protocol

import obstore
from obstore.store import S3Store

from shared.storage.settings import StorageSettings
from tests.contract.storage.seaweed import ADMIN, BUCKET, USER


class Place(Protocol):
    @property
    def settings(self) -> StorageSettings:
        """Settings that own `outgoing/` of this place."""

    def ref(self, path: str) -> str: ...

    async def put(self, path: str, content: bytes) -> str:
        """Make the file and return its reference."""


class FolderPlace:
    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def settings(self) -> StorageSettings:
        return StorageSettings(folder=self.root, owned=self.ref("outgoing/"))

    def ref(self, path: str) -> str:
        return f"file:{path}"

    async def put(self, path: str, content: bytes) -> str:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return self.ref(path)


class S3Place:
    """Keys below `prefix`. Files are put by an administrator, as another service's would be."""

    def __init__(self, url: str, prefix: str) -> None:
        self.url = url
        self._prefix = prefix

    @property
    def settings(self) -> StorageSettings:
        return s3_settings(self.url, owned=self.ref("outgoing/"))

    def ref(self, path: str) -> str:
        return f"s3://{BUCKET}/{self._prefix}/{path}"

    async def put(self, path: str, content: bytes) -> str:
        store = S3Store(
            BUCKET,
            endpoint=self.url,
            region="us-east-1",
            access_key_id=ADMIN[0],
            secret_access_key=ADMIN[1],
            client_options={"allow_http": True},
        )
        await obstore.put_async(store, f"{self._prefix}/{path}", content)
        return self.ref(path)


def s3_settings(
    url: str, *, buckets: str = BUCKET, key: tuple[str, str] = USER, owned: str = "", path_style: bool = True
) -> StorageSettings:
    return StorageSettings(
        s3_endpoint=url,
        s3_buckets=buckets,
        s3_access_key_id=key[0],
        s3_secret_access_key=key[1],
        s3_path_style=path_style,
        owned=owned,
    )
