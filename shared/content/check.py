"""Whether a template may be used: everything that can be known before anyone is told anything by it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.content.option import TRANSLITERATE, option_problems
from shared.content.parameter import declared_names, param_problems, required_names
from shared.content.prepare import prepared_parts
from shared.content.problem import InvalidTemplateError, RenderError, TemplateProblem
from shared.content.profile import profile_problems
from shared.content.render import Renderer, check_parts
from shared.content.sms import SmsReport, sms_report, worst_text
from shared.content.transliterate import transliterated
from shared.core.catalogue import NotificationType, Template
from shared.core.segment import TWILIO_ENCODINGS, Encoding
from shared.core.unsubscribe import with_example
from shared.wire.channel import Category, Channels, ChannelSpec


@dataclass(frozen=True, slots=True)
class TemplateReport:
    """errors forbid its use, warnings do not. parameters: what a request must bring; none of a source that does not
    parse. prepared: what is rendered where that differs from the source. sample: the type's sample filled in, where it
    could be. sms: what it costs.
    """

    errors: tuple[TemplateProblem, ...]
    warnings: tuple[TemplateProblem, ...]
    parameters: frozenset[str]
    prepared: Mapping[str, str] | None = None
    sample: Mapping[str, str] | None = None
    sms: SmsReport | None = None


def check_template(
    entry: NotificationType,
    channel: ChannelSpec,
    locale: str,
    parts: Mapping[str, str],
    options: Mapping[str, Any],
    *,
    profile: str,
    encodings: Sequence[Encoding] = TWILIO_ENCODINGS,
) -> TemplateReport:
    """Check a template as its type is now. Pure; the same source gives the same report.

    profile: the country whose demands a marketing template meets (shared/content/profile.py). encodings: how the SMS
    provider packs texts.
    """
    try:
        parameters = check_parts(channel, parts)
        prepared = prepared_parts(channel.name, parts)
    except InvalidTemplateError as error:
        return TemplateReport(error.problems, (), frozenset())
    except ValueError as error:
        return TemplateReport((TemplateProblem("html", str(error)),), (), frozenset())
    errors = [*_undeclared(entry, parameters), *_bad_sample(entry), *option_problems(channel.name, options)]
    if errors:
        return TemplateReport(tuple(errors), (), parameters, prepared)
    template = Template(entry.name, channel.name, locale, 0, prepared or parts, parameters, options)
    renderer = Renderer(Channels([channel]))
    try:
        sample = renderer.render(template, with_example(entry.category, entry.sample))
    except RenderError as error:
        return TemplateReport((TemplateProblem("sample", str(error)),), (), parameters, prepared)
    if entry.category is Category.MARKETING:
        errors += profile_problems(profile, channel.name, sample)
    warnings = list(_not_always_there(entry, parameters))
    sms = None
    if channel.name == "SMS":
        sms = sms_report(sample["text"], _worst(entry, renderer, template), encodings)
        (errors if entry.refuse_sms_overflow else warnings).extend(_too_long(entry, sms))
    return TemplateReport(tuple(errors), tuple(warnings), parameters, prepared, sample, sms)


def _undeclared(entry: NotificationType, parameters: frozenset[str]) -> Iterator[TemplateProblem]:
    schema = entry.parameter_schema
    allowed = None if schema is None else declared_names(schema)
    if schema is None or allowed is None:
        return
    remedy = "no request may bring it" if "additionalProperties" in schema else "declare it among its parameters"
    for name in sorted(parameters - allowed):
        yield TemplateProblem("parameters", f"{name} is not declared by {entry.name}: {remedy}")


def _not_always_there(entry: NotificationType, parameters: frozenset[str]) -> Iterator[TemplateProblem]:
    if entry.parameter_schema is not None:
        for name in sorted(parameters - required_names(entry.parameter_schema)):
            remedy = "require it there, or say what stands in for it with default"
            yield TemplateProblem("parameters", f"{name} is not required by {entry.name}: {remedy}")


def _bad_sample(entry: NotificationType) -> Iterator[TemplateProblem]:
    if entry.parameter_schema is not None:
        for problem in param_problems(entry.parameter_schema, entry.sample):
            yield TemplateProblem("sample", f"{entry.name}'s sample{problem.path}: {problem.message}")


def _worst(entry: NotificationType, renderer: Renderer, template: Template) -> str | None:
    """The dearest text, however long: no value that the schema lets through is refused here for its length."""
    if entry.parameter_schema is None:
        return None

    def fill(params: Mapping[str, Any]) -> str:
        text = renderer.filled(template, with_example(entry.category, params))["text"].strip()
        return transliterated(text) if template.options.get(TRANSLITERATE) else text

    return worst_text(entry.parameter_schema, entry.sample, fill)


def _too_long(entry: NotificationType, sms: SmsReport) -> Iterator[TemplateProblem]:
    limit = entry.max_sms_segments
    if limit is None:
        return
    for which, verb, packed in (("the sample", "takes", sms.sample), ("the longest values", "take", sms.worst)):
        if packed is not None and packed.count > limit:
            message = f"{which} {verb} {packed.count} segments ({packed.encoding}); {entry.name} allows {limit}"
            yield TemplateProblem("text", message)
            return
