"""`ULAK_STORAGE_*`: what belongs together is set together, and no secret is shown."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from shared.core.storage import OwnedFolder, Scheme
from shared.storage.settings import StorageSettings

KEY: dict[str, Any] = {"s3_access_key_id": "AKIA", "s3_secret_access_key": "hush-hush"}


def test_lists_are_separated_by_commas() -> None:
    settings = StorageSettings(
        folder=Path("/srv/files"),
        s3_buckets="ulak, invoices ,,ulak",
        owned="file:outgoing/, s3://ulak/outgoing/,s3://invoices/",
    )
    assert settings.buckets == ("ulak", "invoices")
    assert settings.owned_folders == (
        OwnedFolder(Scheme.FILE, "", ("outgoing",)),
        OwnedFolder(Scheme.S3, "ulak", ("outgoing",)),
        OwnedFolder(Scheme.S3, "invoices", ()),
    )


def test_nothing_need_be_set() -> None:
    settings = StorageSettings()
    assert (settings.folder, settings.buckets, settings.owned_folders) == (None, (), ())


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"folder": "files"}, "absolute"),
        ({"s3_endpoint": "s3.example.com"}, "https://s3.example.com"),
        ({"s3_endpoint": "ftp://s3.example.com"}, "https://s3.example.com"),
        ({"s3_endpoint": "https://user:secret@s3.example.com"}, "without user"),
        ({"s3_endpoint": "https://s3.example.com/bucket"}, "path"),
        ({"s3_endpoint": "https://s3.example.com:port"}, "https://s3.example.com"),
        ({"s3_buckets": "s3://ulak/"}, "without s3://"),
        ({"s3_buckets": "ulak/outgoing"}, "without s3://"),
        ({"s3_buckets": "Ulak"}, "no bucket that S3 allows"),
        ({"s3_access_key_id": "AKIA"}, "S3_SECRET_ACCESS_KEY"),
        ({"s3_secret_access_key": "hush-hush"}, "S3_ACCESS_KEY_ID"),
        ({"owned": "file:outgoing/"}, "set ULAK_STORAGE_FOLDER"),
        ({"owned": "s3://ulak/outgoing/", "s3_buckets": "other"}, "ULAK_STORAGE_S3_BUCKETS"),
        ({"owned": "outgoing/", "folder": "/srv"}, "begins with file: or s3://"),
        ({"owned": "file:a/../b/", "folder": "/srv"}, "'..'"),
        ({"owned": "file:/srv/outgoing/", "folder": "/srv"}, "absolute"),
    ],
)
def test_what_cannot_be_right_is_refused_with_the_remedy(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        StorageSettings(**values)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "user:secret" not in str(caught.value)


def test_no_repr_shows_the_secret() -> None:
    assert "hush" not in repr(StorageSettings(**KEY))
