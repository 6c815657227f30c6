"""What an SMS template costs: with its sample, and with the dearest values that its parameters may have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.content.parameter import fits
from shared.content.problem import RenderError
from shared.core.segment import TWILIO_ENCODINGS, Encoding, Segments, room, segments

_DEAREST: Final = ("😀", "ş", "Ş", "ı", "İ", "ğ", "Ğ", "ç", "я", "€", "[", "W", "w", "ö", "Ö", "9", ".", "-", " ")
"""From two units of UCS-2 by one of it and two septets down to one; a value is filled with the first it may hold."""
_WORST_NUMBER: Final = 10**15
_UNBOUNDED: Final = 160
"""What is taken for a text that declares no maxLength."""


@dataclass(frozen=True, slots=True)
class SmsReport:
    """sample: with the type's sample. worst: with the dearest values that the type's schema lets through; None where
    it has no schema. left: units of its encoding that the last segment has room for.
    """

    sample: Segments
    left: int
    worst: Segments | None
    worst_left: int | None


def sms_report(sample: str, worst: str | None, encodings: Sequence[Encoding] = TWILIO_ENCODINGS) -> SmsReport:
    """encodings: those that the provider uses (cases S1, S3)."""
    packed = segments(sample, encodings)
    left = room(sample, packed.encoding)
    if worst is None:
        return SmsReport(packed, left, None, None)
    dearest = segments(worst, encodings)
    return SmsReport(packed, left, dearest, room(worst, dearest.encoding))


def sms_body(report: SmsReport) -> Mapping[str, Any]:
    """In JSON's terms, as the API and the terminal tell it."""
    return {
        "encoding": report.sample.encoding.value,
        "segments": report.sample.count,
        "left": report.left,
        "worst": report.worst and report.worst.count,
        "worstLeft": report.worst_left,
    }


def worst_text(schema: Mapping[str, Any], sample: Mapping[str, Any], fill: Callable[[Mapping[str, Any]], str]) -> str:
    """What `fill` makes of the sample with every declared text and number as long and dear as the schema allows.

    A value that the template cannot use (letters where it writes an amount) gives way to the next dearest that it can,
    in the end to the sample's. Looks at the parameters themselves, not into their lists and objects. `fill` raises
    RenderError for what it cannot use, and never for the sample.
    """
    worst = dict(sample)
    text = fill(worst)
    for name, declared in schema.get("properties", {}).items():
        for value in _candidates(declared) if isinstance(declared, Mapping) else ():
            try:
                text = fill(worst | {name: value})
            except RenderError:
                continue
            worst[name] = value
            break
    return text


def _candidates(declared: Mapping[str, Any]) -> Iterator[Any]:
    """Values that the declaration allows, the dearest first."""
    if "enum" in declared:
        yield from sorted(declared["enum"], key=lambda value: _price(str(value)), reverse=True)
        return
    kinds = declared.get("type", "string")
    if "string" in kinds:
        length = declared.get("maxLength", _UNBOUNDED)
        for character in _DEAREST:
            if fits(declared, character * length):
                yield character * length
    if "number" in kinds or "integer" in kinds:
        largest = declared.get("maximum", _WORST_NUMBER)
        if fits(declared, largest):
            yield largest


def _price(value: str) -> tuple[bool, int]:
    """One character of UCS-2 makes the whole text UCS-2."""
    packed = segments(value)
    return packed.encoding is Encoding.UCS2, packed.units
