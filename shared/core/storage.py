"""Where attachments are: references to files that others keep, and the port that reads and removes them.

A reference is stored with its message and resolved when the message is sent. Its path may say something of a person
(`file:invoices/2026/ada-lovelace.pdf`), so neither errors nor reprs hold more of it than its scheme.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

_LONGEST_PATH_BYTES: Final = 1024
"""S3's limit for a key; a file's path has the same, so that a reference can move from one to the other."""

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Amazon S3 user guide, "General purpose buckets naming rules"."""

_REFUSED_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
"""Control characters, and the backslash: some S3 servers and every Windows share take it for a slash."""


class Scheme(StrEnum):
    FILE = "file"
    S3 = "s3"


class StorageError(Exception):
    """Base of what keeps a file away. Messages name the scheme and the remedy, never a path, a bucket or a key.

    StorageError
    +-- InvalidRefError           permanent: not a reference, outside of what is configured, or not ours to delete
    +-- MissingFileError          permanent: the place can be reached and there is no such file
    +-- TooLargeError             permanent: more than the caller takes
    +-- StorageUnavailableError   transient: network, 5xx, time-out, credentials, a folder that is not mounted
    """


class InvalidRefError(StorageError, ValueError):
    pass


class MissingFileError(StorageError):
    pass


class TooLargeError(StorageError):
    def __init__(self, scheme: Scheme, max_bytes: int) -> None:
        super().__init__(f"the file of a {scheme}: reference is larger than {max_bytes} bytes")
        self.max_bytes = max_bytes


class StorageUnavailableError(StorageError):
    pass


class Storage(Protocol):
    """Reads what references lead to. Safe for concurrent use on one event loop."""

    async def read(self, ref: str, *, max_bytes: int, timeout_sec: float) -> bytes:
        """The whole file, at most `max_bytes` of it in at most `timeout_sec`. Raises a StorageError.

        A larger file costs no more memory than a fitting one: reading stops as soon as it is known to be too large.
        """

    async def delete(self, ref: str) -> None:
        """Remove a file that Ulak owns; done already is fine. Raises a StorageError.

        A reference that `owns` denies is an InvalidRefError, whoever asks: foreign files are never removed.
        """

    def owns(self, ref: str) -> bool:
        """Whether Ulak may delete it with its message. False for what is not a reference; never raises."""


@dataclass(frozen=True, slots=True)
class StorageRef:
    """`file:<path below the configured folder>` or `s3://<bucket>/<key>`, taken literally: nothing is decoded.

    bucket is '' for a file. path has no empty, `.` or `..` segment and no leading or trailing slash.
    """

    scheme: Scheme
    bucket: str = field(repr=False)
    path: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> "StorageRef":
        """Raises InvalidRefError, which says what is wrong."""
        scheme, bucket, path = _split(text)
        _check_path(scheme, path)
        return cls(scheme, bucket, path)

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))


@dataclass(frozen=True, slots=True)
class OwnedFolder:
    """A place whose files Ulak deletes with their messages: `file:outgoing/`, or `s3://bucket/` for all of a bucket."""

    scheme: Scheme
    bucket: str
    segments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "OwnedFolder":
        """A reference's beginning up to a slash, which may be left out. Raises InvalidRefError."""
        scheme, bucket, path = _split(text)
        path = path.removesuffix("/")
        if not path:
            return cls(scheme, bucket, ())
        _check_path(scheme, path)
        return cls(scheme, bucket, tuple(path.split("/")))

    def holds(self, ref: StorageRef) -> bool:
        """By whole segments: `file:outgoing/` does not hold `file:outgoing-other/a`, nor itself."""
        depth = len(self.segments)
        return (
            (ref.scheme, ref.bucket) == (self.scheme, self.bucket)
            and len(ref.segments) > depth
            and ref.segments[:depth] == self.segments
        )


def _split(text: str) -> tuple[Scheme, str, str]:
    """Scheme, bucket and the path as it stands."""
    name, colon, rest = text.partition(":")
    try:
        scheme = Scheme(name if colon else "")
    except ValueError:
        raise InvalidRefError("a storage reference begins with file: or s3://; this one does not") from None
    if scheme is Scheme.FILE:
        if rest.startswith("/"):
            raise InvalidRefError("a file: reference is relative to ULAK_STORAGE_FOLDER; this one is absolute")
        return scheme, "", rest
    bucket, _, path = rest.removeprefix("//").partition("/")
    if not rest.startswith("//") or not _BUCKET.fullmatch(bucket):
        raise InvalidRefError("an s3: reference is s3://<bucket>/<key>; this one names no bucket that S3 allows")
    return scheme, bucket, path


def _check_path(scheme: Scheme, path: str) -> None:
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise InvalidRefError(f"a {scheme}: reference is not valid Unicode") from None
    if length > _LONGEST_PATH_BYTES:
        raise InvalidRefError(f"the path of a {scheme}: reference is longer than {_LONGEST_PATH_BYTES} bytes")
    if _REFUSED_CHARACTER.search(path):
        raise InvalidRefError(f"a {scheme}: reference holds a control character or a backslash")
    segments = path.split("/")
    if "" in segments:
        raise InvalidRefError(f"a {scheme}: reference names no file: its path is empty or has an empty segment")
    if "." in segments or ".." in segments:
        raise InvalidRefError(f"a {scheme}: reference has a path with '.' or '..' as a segment")
