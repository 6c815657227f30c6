"""The bulk cancel's bodies (docs/openapi/ingest.json is generated from them)."""

from typing import Annotated

from pydantic import Field, StringConstraints

from shared.web.model import Answer, Body, Instant, Locale, Name

Version = Annotated[int, Field(ge=1, lt=2**31)]


class TemplateVersion(Body):
    """A version of the type's template, as it was rendered. E-mails that are rendered when they are sent have none."""

    channel: Name = Field(examples=["PUSH"])
    locale: Locale = Field(examples=["tr"])
    version: Version


class CancelFilter(Body):
    """Which notifications: all of these must hold. Those of the key's own application, unless it is an admin's key."""

    since: Instant = Field(description="Accepted from then on.")
    until: Instant | None = Field(default=None, description="Accepted before then; now, if it is left out.")
    type: Name | None = None
    template: TemplateVersion | None = Field(default=None, description="Needs type.")
    api_key_id: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="Sent with this API key (`key_...`)."
    )


class BulkCancelRequest(Body):
    """Nothing is changed unless `dryRun` is false: look at the counts first."""

    filter: CancelFilter
    dry_run: bool = True
    cursor: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="As the answer before gave it, with the same filter: goes on from there."
    )


class Standing(Answer):
    """How many stood so before: deliveries, or notifications that were not decided yet (ACCEPTED, DEFERRED)."""

    state: str
    reason: str | None = None
    count: int


class BulkCancelAnswer(Answer):
    """What this call looked at and did; with a cursor there is more, and calls' counts add up."""

    dry_run: bool
    notifications: int = Field(description="Notifications that the filter means.")
    cancelled: int = Field(description="Deliveries that were stopped, or would be; an undecided notification is one.")
    in_flight: int = Field(description="Deliveries on the wire: they are not tried again.")
    already_out: int
    standing: list[Standing]
    cursor: str | None = None
