"""Objects of one S3 bucket, by obstore (Rust's object_store)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from shared.core.storage import (
    InvalidRefError,
    MissingFileError,
    Scheme,
    StorageRef,
    StorageUnavailableError,
    TooLargeError,
)
from shared.storage.settings import StorageSettings

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config

_CHUNK_BYTES: Final = 256 * 1024
_CONNECT_TIMEOUT: Final = timedelta(seconds=5)
_NO_TIMEOUT: Final = timedelta(days=1)
"""The caller's time limit ends a request; obstore's own of 30 s would end a long but healthy one."""

_RETRIES: Final = 2
"""For a connection that died while it was idle; the message's own retries are the patient ones."""


_STATUS: Final = re.compile(r"status code: \d{3}")


class Bucket:
    """One bucket. Making one does not connect."""

    def __init__(self, name: str, settings: StorageSettings) -> None:
        client: ClientConfig = {"connect_timeout": _CONNECT_TIMEOUT, "timeout": _NO_TIMEOUT}
        config: S3Config = {
            "region": settings.s3_region,
            "virtual_hosted_style_request": not settings.s3_path_style,
            "disable_bulk_delete": True,  # not every service has DeleteObjects
        }
        if settings.s3_endpoint is not None:
            # The one of two keys that AWS_ENDPOINT_URL_S3 in the environment does not override.
            config["aws_endpoint_url_s3"] = bucket_endpoint(
                settings.s3_endpoint, name, path_style=settings.s3_path_style
            )
            client["allow_http"] = settings.s3_endpoint.startswith("http://")
        if settings.s3_access_key_id is not None and settings.s3_secret_access_key is not None:
            config["access_key_id"] = settings.s3_access_key_id
            config["secret_access_key"] = settings.s3_secret_access_key.get_secret_value()
        retry: RetryConfig = {
            "max_retries": _RETRIES,
            "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1)},
        }
        self._store = S3Store(name, config=config, client_options=client, retry_config=retry)

    async def read(self, ref: StorageRef, *, max_bytes: int) -> bytes:
        """Raises a StorageError. Cancelling it closes the connection."""
        with _explained():
            found = await obstore.get_async(self._store, ref.path)
            if found.meta["size"] > max_bytes:
                raise TooLargeError(Scheme.S3, max_bytes)
            content = bytearray()
            async for chunk in found.stream(min_chunk_size=_CHUNK_BYTES):
                content += chunk
                if len(content) > max_bytes:
                    raise TooLargeError(Scheme.S3, max_bytes)
            return bytes(content)

    async def delete(self, ref: StorageRef) -> None:
        """S3 answers the same whether the object was there or not."""
        with _explained():
            await obstore.delete_async(self._store, ref.path)


def bucket_endpoint(endpoint: str, bucket: str, *, path_style: bool) -> str:
    """As object_store wants it: where the bucket is not in the path, it is in the host already."""
    if path_style:
        return endpoint
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{bucket}.{parts.netloc}"


@contextmanager
def _explained() -> Iterator[None]:
    """Translates what obstore says. Not chained: its errors quote bucket, key and the server's whole answer."""
    try:
        yield
    except FileNotFoundError as error:
        # obstore has one error for both; only the server's code in its text tells them apart.
        if "<Code>NoSuchBucket</Code>" in str(error):
            raise StorageUnavailableError(
                "a bucket of ULAK_STORAGE_S3_BUCKETS does not exist at the S3 endpoint: correct the setting, "
                "or create it"
            ) from None
        raise MissingFileError("an s3: reference leads to no object of its bucket") from None
    except (PermissionDeniedError, UnauthenticatedError):
        raise StorageUnavailableError(
            "S3 refuses the credentials for an s3: reference: correct ULAK_STORAGE_S3_ACCESS_KEY_ID and its secret, "
            "and allow it to get (and, where Ulak owns files, delete) objects; who may not list the bucket is told "
            "the same of an object that is not there"
        ) from None
    except BaseError as error:
        answer = _STATUS.search(str(error))
        raise StorageUnavailableError(
            f"S3 cannot be used for an s3: reference ({answer[0] if answer else 'no answer'}): see whether "
            "ULAK_STORAGE_S3_ENDPOINT and ULAK_STORAGE_S3_REGION are right and the service answers; without an access "
            "key the machine must have a role"
        ) from None
    except ValueError:
        raise InvalidRefError("an s3: reference has a key that the S3 client does not take") from None
