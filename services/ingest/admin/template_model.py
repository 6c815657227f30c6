"""Bodies and answers about templates, and how stored ones are told (docs/openapi/ingest.json)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field
from starlette.responses import Response

from services.ingest.admin.etag import etag
from shared.content.check import TemplateReport
from shared.content.problem import TemplateProblem
from shared.content.sms import sms_body
from shared.postgres.template import StoredTemplate
from shared.publishing.preview import Preview
from shared.publishing.template import Checked
from shared.web.model import Answer, Body, Locale, UserId
from shared.web.response import json_response


class TemplateBody(Body):
    """What an author writes. parts: content field -> Jinja source; which fields, says the channel."""

    parts: dict[str, str] = Field(min_length=1, examples=[{"title": "Kargoda", "body": "{{ orderNo }} yolda"}])
    options: dict[str, Any] = Field(default_factory=dict, description="The channel's own settings.")


class NewTemplateBody(TemplateBody):
    type: str = Field(max_length=64)
    channel: str = Field(max_length=16)
    locale: Locale


class PreviewBody(Body):
    params: dict[str, Any] | None = Field(default=None, description="Left out: the type's sample.")


class TestSendBody(Body):
    """To whom, and with what."""

    __test__ = False  # pytest looks at classes by their name

    user_id: UserId
    params: dict[str, Any] | None = Field(default=None, description="Left out: the type's sample.")


class TestSendAnswer(Answer):
    __test__ = False

    notification_id: str = Field(examples=["ntf_01kbapv8a4fevs0dqf3qx5kpkx"])


class RollbackBody(Body):
    version: int | None = Field(default=None, ge=1, description="Left out: the one published before the active one.")


class ProblemOfTemplate(Answer):
    part: str
    line: int | None
    message: str


class TemplateAnswer(Answer):
    type: str
    channel: str
    locale: str
    version: int
    state: Literal["draft", "published"]
    active: bool
    parts: dict[str, str]
    options: dict[str, Any]
    parameters: list[str]
    created_at: str
    created_by: str
    published_at: str | None
    published_by: str | None
    errors: list[ProblemOfTemplate] | None = Field(default=None, description="With a draft that was just written.")
    warnings: list[ProblemOfTemplate] | None = None


class TemplatesAnswer(Answer):
    items: list[TemplateAnswer]
    cursor: str | None


class SmsAnswer(Answer):
    """What a text costs, and what it costs at worst: with the dearest values that the type's schema lets through."""

    encoding: str = Field(examples=["GSM7", "UCS2"])
    segments: int
    left: int = Field(description="Units of the encoding that the last segment has room for.")
    worst: int | None = Field(description="Segments; null without a schema.")
    worst_left: int | None


class PreviewAnswer(Answer):
    content: dict[str, str]
    errors: list[ProblemOfTemplate] = Field(description="What would keep it from being published now.")
    warnings: list[ProblemOfTemplate]
    sms: SmsAnswer | None = Field(default=None, description="Of an SMS.")


class DiffAnswer(Answer):
    diff: list[str] = Field(description="Lines of a unified diff.")


def template_body(stored: StoredTemplate) -> dict[str, Any]:
    return {
        "type": stored.key.type_name,
        "channel": stored.key.channel,
        "locale": stored.key.locale,
        "version": stored.version,
        "state": stored.state,
        "active": stored.active,
        "parts": dict(stored.parts),
        "options": dict(stored.options),
        "parameters": sorted(stored.parameters),
        "createdAt": stored.created_at,
        "createdBy": stored.created_by,
        "publishedAt": stored.published_at,
        "publishedBy": stored.published_by,
    }


def template_response(stored: StoredTemplate, status: int) -> Response:
    """A version, with the ETag that a change of it names."""
    return _tagged(stored, template_body(stored), status)


def checked_response(checked: Checked, status: int) -> Response:
    """A version, and what its check found."""
    return _tagged(checked.template, template_body(checked.template) | _findings(checked.report), status)


def preview_response(seen: Preview) -> Response:
    """What would be said, and what the check finds."""
    sms = {} if seen.sms is None else {"sms": sms_body(seen.sms)}
    return json_response({"content": dict(seen.content), **_findings(seen.report), **sms})


def _tagged(stored: StoredTemplate, body: Mapping[str, Any], status: int) -> Response:
    response = json_response(body, status)
    response.headers["etag"] = etag(stored.revision)
    return response


def _findings(report: TemplateReport) -> dict[str, Any]:
    return {"errors": _problems(report.errors), "warnings": _problems(report.warnings)}


def _problems(found: Sequence[TemplateProblem]) -> list[dict[str, Any]]:
    return [{"part": problem.part, "line": problem.line, "message": problem.message} for problem in found]
