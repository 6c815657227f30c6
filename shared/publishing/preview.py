"""A version as somebody would see it, and what its check finds by its type as it is now. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared.content.check import TemplateReport
from shared.content.render import Renderer
from shared.content.sms import SmsReport, sms_report
from shared.core.catalogue import NotificationType
from shared.core.unsubscribe import with_example
from shared.postgres.template import StoredTemplate
from shared.publishing.template import Draft, report_on
from shared.wire.channel import DEFAULT_CHANNELS


@dataclass(frozen=True, slots=True)
class Preview:
    """content: field -> text. sms: what this content costs, and at worst any that the type's schema lets through."""

    content: Mapping[str, str]
    report: TemplateReport
    sms: SmsReport | None


def preview(
    template: StoredTemplate, entry: NotificationType, params: Mapping[str, Any] | None, *, zone: str, profile: str
) -> Preview:
    """RenderError as `rendered`. profile: as `report_on`."""
    content = rendered(template, entry, params, zone=zone)
    report = report_on(entry, Draft(template.key, template.parts, template.options), profile=profile)
    if template.key.channel != "SMS":
        return Preview(content, report, None)
    sms = sms_report(content["text"], None)
    if report.sms is not None:
        sms = replace(sms, worst=report.sms.worst, worst_left=report.sms.worst_left)
    return Preview(content, report, sms)


def rendered(
    template: StoredTemplate,
    entry: NotificationType,
    params: Mapping[str, Any] | None,
    *,
    zone: str,
    marked: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What a version says with these params, or with its type's sample; to marketing, an example of the link to
    unsubscribe by. zone: in which dates and times are told. marked: what fields begin with, too.

    Raises RenderError for what it cannot say.
    """
    found = template.renderable
    parts = {name: (marked or {}).get(name, "") + source for name, source in found.parts.items()}
    given = entry.sample if params is None else params
    # A renderer of its own: drafts change their text under the same version.
    return Renderer(DEFAULT_CHANNELS, default_zone=zone).render(
        replace(found, parts=parts), with_example(entry.category, given)
    )
