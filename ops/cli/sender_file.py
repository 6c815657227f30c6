"""Senders in catalogue files: who the mails of a type are from, with the key that signs them. Reads only.

senders: {orders: {from: Shop Orders <orders@shop.example>, replyTo, returnPath, dkim: {domain, selector, keyFile}}}
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from shared.core.ports import DkimKey, SenderProfile
from shared.publishing.sender import MAX_ADDRESS, SELECTOR, InvalidSenderError, dkim_domain, dkim_key, sender_profile

Address = Annotated[str, Field(min_length=1, max_length=MAX_ADDRESS)]


class DkimEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    domain: str = Field(min_length=1, max_length=253)
    selector: str = Field(max_length=63, pattern=SELECTOR)
    key_file: str = Field(min_length=1, alias="keyFile")


class SenderEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    from_: Address = Field(alias="from")
    reply_to: Address | None = Field(default=None, alias="replyTo")
    return_path: Address | None = Field(default=None, alias="returnPath")
    dkim: DkimEntry | None = None


def read_sender(entry: SenderEntry, folder: Path) -> SenderProfile:
    """The checked profile, with its key read; key files are named from `folder`, the catalogue file's own.

    Raises InvalidSenderError, and OSError for a key file that is there and cannot be read.
    """
    profile = sender_profile(entry.from_, entry.reply_to, entry.return_path, None)
    return profile if entry.dkim is None else replace(profile, dkim=_dkim(entry.dkim, folder))


def _dkim(entry: DkimEntry, folder: Path) -> DkimKey:
    dkim_domain(entry.domain)
    path = folder / entry.key_file
    if not path.is_file():
        raise InvalidSenderError("dkim.keyFile", f"there is no file {path}: paths are relative to the catalogue file")
    return dkim_key(entry.domain, entry.selector, path.read_bytes(), place="dkim.keyFile")
