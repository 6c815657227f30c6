"""Where attachments may be read from (`ULAK_STORAGE_*`)."""

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings

from shared.core.storage import OwnedFolder, Scheme, StorageRef
from shared.runtime.settings import settings_config


class StorageSettings(BaseSettings):
    """A folder for `file:` references, buckets of one S3-compatible service for `s3:` ones; both may be unset."""

    model_config = settings_config("ULAK_STORAGE_")

    folder: Path | None = Field(default=None, description="Folder that `file:` references are relative to.")
    s3_endpoint: str | None = Field(
        default=None, description="URL of an S3-compatible service; unset: Amazon's, of the region."
    )
    s3_region: str = Field(default="us-east-1", min_length=1, description="Region that requests are signed for.")
    s3_buckets: str = Field(
        default="", description="Buckets that `s3:` references may name, separated by commas; others are refused."
    )
    s3_access_key_id: str | None = Field(
        default=None, description="Access key; unset: the role of the machine or service account (AWS)."
    )
    s3_secret_access_key: SecretStr | None = Field(default=None, description="Its secret.")
    s3_path_style: bool = Field(
        default=True, description="Name the bucket in the path, which every service takes; false: in the host name."
    )
    owned: str = Field(
        default="",
        description="Beginnings of references, up to a slash, of files that Ulak deletes with their message, separated "
        "by commas: `file:outgoing/,s3://ulak/outgoing/`. Other files are never deleted.",
    )

    @property
    def buckets(self) -> tuple[str, ...]:
        return _listed(self.s3_buckets)

    @property
    def owned_folders(self) -> tuple[OwnedFolder, ...]:
        return tuple(OwnedFolder.parse(text) for text in _listed(self.owned))

    @field_validator("folder")
    @classmethod
    def _is_absolute(cls, folder: Path | None) -> Path | None:
        if folder is not None and not folder.is_absolute():
            raise ValueError("must be an absolute path")
        return folder

    @field_validator("s3_endpoint")
    @classmethod
    def _is_url(cls, endpoint: str | None) -> str | None:
        if endpoint is None:
            return None
        try:
            parts = urlsplit(endpoint)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            raise ValueError("must be a URL like https://s3.example.com") from None
        if not usable or parts.username or parts.query or parts.fragment or parts.path not in {"", "/"}:
            raise ValueError("must be a URL like https://s3.example.com, without user, path or query")
        return endpoint.removesuffix("/")

    @field_validator("s3_buckets")
    @classmethod
    def _are_buckets(cls, text: str) -> str:
        for bucket in _listed(text):
            if "/" in bucket:
                raise ValueError("each is the name of a bucket alone, without s3:// and slashes")
            StorageRef.parse(f"s3://{bucket}/key")
        return text

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.s3_access_key_id is None) != (self.s3_secret_access_key is None):
            raise ValueError("set ULAK_STORAGE_S3_ACCESS_KEY_ID and ULAK_STORAGE_S3_SECRET_ACCESS_KEY, or neither")
        for owned in self.owned_folders:
            if owned.scheme is Scheme.FILE and self.folder is None:
                raise ValueError("ULAK_STORAGE_OWNED names file: references: set ULAK_STORAGE_FOLDER too")
            if owned.scheme is Scheme.S3 and owned.bucket not in self.buckets:
                raise ValueError("ULAK_STORAGE_OWNED names a bucket that ULAK_STORAGE_S3_BUCKETS does not")
        return self


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry.strip() for entry in text.split(",") if entry.strip()))
