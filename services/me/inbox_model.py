"""Answers about the inbox (docs/openapi/me.json is generated from these)."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from shared.web.model import Answer


class EntryAnswer(Answer):
    notification_id: str = Field(examples=["ntf_01kbapv8a4fevs0dqf3qx5kpkx"])
    type: str
    title: str
    body: str
    url: str | None = None
    locale: str
    state: Literal["unseen", "seen", "read", "archived"]
    created_at: datetime = Field(description="When it came into the inbox.")
    seen_at: datetime | None = None
    read_at: datetime | None = None
    archived_at: datetime | None = None


class InboxAnswer(Answer):
    items: list[EntryAnswer] = Field(description="Newest first.")
    cursor: str | None = Field(description="Send it as ?cursor= for the next page; null where this is the last.")
    unread: int


class UnreadAnswer(Answer):
    unread: int = Field(description="Neither read nor archived.")


class TicketAnswer(Answer):
    ticket: str
    expires_in_seconds: int = Field(description="Open the stream within this time; a ticket is good once.")
