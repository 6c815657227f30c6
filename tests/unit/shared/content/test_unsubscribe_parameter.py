"""The link to unsubscribe by is no parameter of a request, and only marketing has one."""

from datetime import timedelta

import pytest

from shared.content.check import check_template
from shared.content.render import check_parts
from shared.core.catalogue import NotificationType
from shared.core.unsubscribe import EXAMPLE
from shared.wire.channel import EMAIL, Category

PARTS = {"subject": "{{ what }}", "text": "{{ what }} {{ unsubscribeUrl }} MERSİS 0123456789000015"}


def entry(category: Category) -> NotificationType:
    schema = {"type": "object", "properties": {"what": {"type": "string"}}, "additionalProperties": False}
    return NotificationType(
        "SALE",
        category,
        category.message_class,
        ("EMAIL",),
        timedelta(hours=1),
        parameter_schema=schema,
        sample={"what": "Kış"},
    )


def test_a_request_need_not_bring_it() -> None:
    assert check_parts(EMAIL, PARTS) == {"what"}


def test_marketing_is_checked_with_an_example_of_it() -> None:
    report = check_template(entry(Category.MARKETING), EMAIL, "tr", PARTS, {}, profile="TR")
    assert report.errors == ()
    assert report.sample is not None
    assert EXAMPLE in report.sample["text"]


@pytest.mark.parametrize("category", [Category.TRANSACTIONAL, Category.SECURITY])
def test_others_have_none_and_cannot_be_published_with_it(category: Category) -> None:
    report = check_template(entry(category), EMAIL, "tr", PARTS, {}, profile="TR")
    assert "unsubscribeUrl" in str(report.errors)
