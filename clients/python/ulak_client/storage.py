"""Where attachments are, as Ulak reads it: `file:<path>` below its folder, or `s3://<bucket>/<key>`."""

import re
from typing import Final

_LONGEST: Final = 1024
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Amazon S3 user guide, "General purpose buckets naming rules"."""


def check_storage_ref(name: str, text: str) -> None:
    """ValueError unless Ulak takes it as a reference; whether there is such a file, the send finds out."""
    if not 0 < len(text) <= _LONGEST or not text.isprintable():
        raise ValueError(
            f"{name} is a reference like s3://bucket/key or file:folder/name, of at most {_LONGEST} characters"
        )
    scheme, _, rest = text.partition(":")
    if scheme == "s3":
        bucket, _, path = rest.removeprefix("//").partition("/")
        if not rest.startswith("//") or not _BUCKET.fullmatch(bucket):
            raise ValueError(f"{name} is s3://<bucket>/<key>; this one names no bucket that S3 allows")
    elif scheme == "file":
        path = rest
        if path.startswith("/"):
            raise ValueError(f"{name} is relative to Ulak's folder of files; this one is absolute")
    else:
        raise ValueError(f"{name} begins with file: or s3://; this one does not")
    if len(path.encode()) > _LONGEST or "\\" in path or {"", ".", ".."} & set(path.split("/")):
        raise ValueError(
            f"{name} has a path of at most {_LONGEST} bytes without backslashes and empty, . or .. segments"
        )
