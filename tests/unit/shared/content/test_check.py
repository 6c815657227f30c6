"""What may be published: what fits its type, its channel, its country and its price."""

from datetime import timedelta
from typing import Any

import pytest

from shared.content.check import TemplateReport, check_template
from shared.core.catalogue import NotificationType
from shared.core.segment import ALL_ENCODINGS, TWILIO_ENCODINGS, Encoding, segments
from shared.wire.channel import DEFAULT_CHANNELS, Category

ORDER_NO = {"type": "string", "maxLength": 8, "pattern": "^[0-9]+$"}


def schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def entry(category: Category = Category.TRANSACTIONAL, **changed: Any) -> NotificationType:
    values: dict[str, Any] = {"sample": {"orderNo": "98213"}, "parameter_schema": schema(orderNo=ORDER_NO)} | changed
    return NotificationType("T", category, category.message_class, ("SMS",), timedelta(hours=1), **values)


def check(channel: str, parts: dict[str, str], of: NotificationType | None = None, **options: Any) -> TemplateReport:
    return check_template(of or entry(), DEFAULT_CHANNELS.spec(channel), "tr", parts, options, profile="TR")


@pytest.mark.parametrize(
    ("channel", "parts", "options", "part"),
    [
        pytest.param("PUSH", {"title": "a", "body": "{{ x }}"}, {}, "parameters", id="undeclared"),
        pytest.param("PUSH", {"title": "a", "body": "b"}, {"volume": 3}, "options.volume", id="no-such-option"),
        pytest.param("PUSH", {"title": "a", "body": "b"}, {"badge": "3"}, "options.badge", id="badge-as-text"),
        pytest.param("SMS", {"text": "a"}, {"senderId": "123456789012"}, "options.senderId", id="sender-of-digits"),
        pytest.param("EMAIL", {"subject": "a", "text": "b"}, {"sound": "x"}, "options.sound", id="option-elsewhere"),
        pytest.param("EMAIL", {"subject": "a\u202eb", "text": "b"}, {}, "subject", id="subject-turned-over"),
        pytest.param("PUSH", {"title": "\u2067a\u2069", "body": "b"}, {}, "title", id="title-turned-over"),
        pytest.param("EMAIL", {"subject": "a"}, {}, "text", id="neither-text-nor-html"),
        pytest.param("EMAIL", {"subject": "a", "html": "<p {{ x }}>"}, {}, "html", id="html"),
        pytest.param("PUSH", {"title": "a", "body": "b", "image": "http://a.example/x"}, {}, "sample", id="image"),
        pytest.param("PUSH", {"title": "a", "body": "b", "data.aps": "x"}, {}, "data.aps", id="reserved-data"),
        pytest.param("INBOX", {"title": "a"}, {}, "body", id="inbox-needs-a-body"),
        pytest.param("PUSH", {"title": "a", "body": "b"}, {"ttl": -1}, "options.ttl", id="ttl"),
        pytest.param("PUSH", {"title": "a", "body": "b"}, {"ttl": True}, "options.ttl", id="ttl-is-no-switch"),
        pytest.param("PUSH", {"title": "a", "body": "b"}, {"sound": ""}, "options.sound", id="sound"),
        pytest.param("PUSH", {"title": "a", "body": "b"}, {"threadId": "a b"}, "options.threadId", id="thread"),
        pytest.param("PUSH", {"title": "a", "body": "b", "collapseKey": "ş" * 33}, {}, "sample", id="collapse-key-P7"),
        pytest.param("SMS", {"text": "a"}, {"transliterate": "yes"}, "options.transliterate", id="switch"),
    ],
)
def test_errors(channel: str, parts: dict[str, str], options: dict[str, Any], part: str) -> None:
    assert [problem.part for problem in check(channel, parts, **options).errors] == [part]


@pytest.mark.parametrize(
    ("channel", "parts", "options"),
    [
        pytest.param("EMAIL", {"subject": "a", "html": "<p>{{ orderNo }}</p>"}, {}, id="html-alone"),
        pytest.param("PUSH", {"title": "a", "body": "b", "data.orderNo": "{{ orderNo }}"}, {"badge": 0}, id="push"),
        pytest.param("SMS", {"text": "{{ orderNo }}"}, {"senderId": "SHOP", "transliterate": True}, id="sms"),
        pytest.param("INBOX", {"title": "a", "body": "b", "url": "/orders/{{ orderNo }}"}, {}, id="inbox"),
    ],
)
def test_fine(channel: str, parts: dict[str, str], options: dict[str, Any]) -> None:
    report = check(channel, parts, **options)
    assert (report.errors, report.warnings) == ((), ())
    assert report.sample is not None


@pytest.mark.parametrize(
    ("more", "errors"),
    [
        pytest.param({}, ["carrier is not declared by T: no request may bring it"], id="closed"),
        pytest.param({"additionalProperties": True}, [], id="open"),
    ],
)
def test_a_parameter_that_the_type_does_not_declare(more: dict[str, Any], errors: list[str]) -> None:
    sample = {"orderNo": "1"} | ({"carrier": "A"} if more else {})
    of = entry(parameter_schema=schema(orderNo=ORDER_NO) | more, sample=sample)
    found = check("PUSH", {"title": "{{ orderNo }}", "body": "{{ carrier }}"}, of)
    assert [problem.message for problem in found.errors] == errors


@pytest.mark.parametrize(("body", "warnings"), [("{{ orderNo }}", 1), ("{{ orderNo|default('-') }}", 0)])
def test_a_parameter_that_requests_may_leave_out(body: str, warnings: int) -> None:
    of = entry(parameter_schema=schema(orderNo=ORDER_NO) | {"required": []})
    found = check("PUSH", {"title": "a", "body": body}, of)
    assert (len(found.errors), len(found.warnings)) == (0, warnings)


def test_options_that_a_provider_is_told_travel_with_the_content() -> None:
    report = check("PUSH", {"title": "a", "body": "b"}, sound="bell.caf", badge=3, ttl=60)
    assert report.sample == {"title": "a", "body": "b", "sound": "bell.caf", "badge": "3", "ttl": "60"}


class TestSegments:
    def test_the_sample_and_the_worst_that_the_schema_lets_through(self) -> None:
        sms = check("SMS", {"text": "Siparis {{ orderNo }}"}).sms
        assert sms is not None
        assert (sms.sample.encoding, sms.sample.count, sms.left) == (Encoding.GSM7, 1, 160 - len("Siparis 98213"))
        assert sms.worst is not None
        assert (sms.worst.count, sms.worst.units) == (1, len("Siparis 99999999"))

    def test_a_free_text_may_hold_emoji(self) -> None:
        of = entry(parameter_schema=schema(orderNo={"type": "string", "maxLength": 40}))
        sms = check("SMS", {"text": "{{ orderNo }}"}, of).sms
        assert sms is not None
        assert sms.worst is not None
        assert (sms.worst.encoding, sms.worst.units, sms.worst.count) == (Encoding.UCS2, 80, 2)

    @pytest.mark.parametrize(
        ("declared", "sample", "source", "dearest"),
        [
            pytest.param({"pattern": "^[A-ZÇĞİÖŞÜ]*$", "maxLength": 9}, "", "{{ v }}", "Ş" * 9, id="capitals"),
            pytest.param({"pattern": "^[^ -~]*$", "maxLength": 9}, "", "{{ v }}", "😀" * 9, id="emoji"),
            pytest.param({"maxLength": 9}, "1", "{{ v|money('TRY') }}", "₺999.999.999,00", id="money"),
            pytest.param({"type": "integer", "maximum": 999}, 1, "{{ v|number }}", "999", id="number"),
            pytest.param({"type": "string", "maxLength": 2000}, "", "{{ v }}", "😀" * 2000, id="more-than-a-message"),
            pytest.param({"type": "object"}, {"name": "x"}, "{{ v.name }}", "x", id="what-is-not-looked-into"),
        ],
    )
    def test_the_dearest_value_that_the_schema_and_the_template_take(
        self, declared: dict[str, Any], sample: Any, source: str, dearest: str
    ) -> None:
        sms = check("SMS", {"text": "a" + source}, entry(parameter_schema=schema(v=declared), sample={"v": sample})).sms
        assert sms is not None
        assert sms.worst == segments("a" + dearest)

    def test_what_no_request_could_send_is_too_long_as_well(self) -> None:
        of = entry(
            parameter_schema=schema(orderNo={"type": "string", "maxLength": 2000}),
            max_sms_segments=3,
            refuse_sms_overflow=True,
        )
        assert "the longest values take 61 segments" in str(check("SMS", {"text": "{{ orderNo }}"}, of).errors)

    @pytest.mark.parametrize(
        ("encodings", "encoding", "left"),
        [
            pytest.param(TWILIO_ENCODINGS, Encoding.UCS2, 70 - 14, id="twilio"),
            pytest.param(ALL_ENCODINGS, Encoding.GSM7_TURKISH_SINGLE, 155 - 15, id="tables"),
        ],
    )
    def test_shift_tables_are_counted_where_a_provider_has_them_S3(
        self, encodings: tuple[Encoding, ...], encoding: Encoding, left: int
    ) -> None:
        spec = DEFAULT_CHANNELS.spec("SMS")
        report = check_template(
            entry(), spec, "tr", {"text": "Şifreniz {{ orderNo }}"}, {}, profile="TR", encodings=encodings
        )
        assert report.sms is not None
        assert (report.sms.sample.encoding, report.sms.left) == (encoding, left)
        assert report.sms.worst_left == left - 3

    def test_of_an_enumeration_the_dearest(self) -> None:
        long = "kargonuz subede bekliyor, aliniz"
        of = entry(parameter_schema=schema(orderNo={"enum": ["98213", "kısa", "kargo şubede bekliyor", long]}))
        sms = check("SMS", {"text": "{{ orderNo }}"}, of).sms
        assert sms is not None
        assert sms.worst is not None
        assert sms.worst.units == len("kargo şubede bekliyor")

    def test_without_a_schema_no_worst_can_be_told(self) -> None:
        sms = check("SMS", {"text": "{{ orderNo }}"}, entry(parameter_schema=None)).sms
        assert sms is not None
        assert sms.worst is None

    @pytest.mark.parametrize(("refuse", "errors", "warnings"), [(False, 0, 1), (True, 1, 0)])
    def test_more_than_allowed_warns_or_refuses_as_the_type_says(
        self, refuse: bool, errors: int, warnings: int
    ) -> None:
        of = entry(max_sms_segments=1, refuse_sms_overflow=refuse)
        for text in ("ş" * 66 + "{{ orderNo }}", "ş" * 63 + "{{ orderNo }}"):  # by the sample; by the longest alone
            report = check("SMS", {"text": text}, of)
            assert (len(report.errors), len(report.warnings)) == (errors, warnings)

    def test_letters_are_replaced_only_where_the_template_asks_S3(self) -> None:
        plain = check("SMS", {"text": "Şifreniz değişti: “{{ orderNo }}”"})
        asked = check("SMS", {"text": "Şifreniz değişti: “{{ orderNo }}”"}, transliterate=True)
        assert plain.sample == {"text": "Şifreniz değişti: “98213”"}
        assert asked.sample == {"text": 'Sifreniz degisti: "98213"'}
        assert asked.sms is not None
        assert asked.sms.sample.encoding is Encoding.GSM7


class TestMarketing:
    WAY_OUT = "{{ unsubscribeUrl }}"
    SENDER = "Mağaza A.Ş., MERSİS 0123456789000015"

    @pytest.mark.parametrize(
        ("text", "errors"),
        [
            pytest.param("İndirim", 2, id="neither"),
            pytest.param(f"İndirim {SENDER}", 1, id="no-way-out"),
            pytest.param(f"İndirim {WAY_OUT}", 1, id="no-sender"),
            pytest.param(f"İndirim {SENDER} {WAY_OUT}", 0, id="both"),
        ],
    )
    def test_turkish_mail_names_its_sender_and_a_way_out(self, text: str, errors: int) -> None:
        report = check("EMAIL", {"subject": "a", "text": text}, entry(Category.MARKETING))
        assert len(report.errors) == errors

    @pytest.mark.parametrize(
        ("text", "errors"),
        [
            pytest.param("Indirim!", 2, id="neither"),
            pytest.param("Indirim! Ret icin RET yaz 3344'e gonder B001", 0, id="both"),
            pytest.param("Indirim! B001", 1, id="no-way-out"),
        ],
    )
    def test_turkish_sms(self, text: str, errors: int) -> None:
        assert len(check("SMS", {"text": text}, entry(Category.MARKETING)).errors) == errors

    @pytest.mark.parametrize(
        ("html", "errors"),
        [
            pytest.param(f'<p>{SENDER}</p><a href="{WAY_OUT}">çık</a>', 0, id="both"),
            pytest.param("<p>İndirim</p>", 2, id="in-the-text-alone"),
            pytest.param(f"<p>İndirim</p>{{# {SENDER} {WAY_OUT} #}}", 2, id="in-a-comment-of-the-template"),
            pytest.param(f"<p>İndirim</p><!-- {SENDER} -->", 2, id="in-a-comment-of-the-page"),
            pytest.param(f"<p>İ</p>{{% if false %}}{SENDER} {WAY_OUT}{{% endif %}}", 2, id="where-it-never-stands"),
            pytest.param(f"<head><title>{SENDER}</title></head><a href='{WAY_OUT}'>çık</a>", 1, id="in-the-head"),
            pytest.param("<p>{{ mersisNo }}</p><a href='{{ unsubscribeUrl }}'>çık</a>", 0, id="as-a-parameter"),
        ],
    )
    def test_who_reads_html_finds_both_there(self, html: str, errors: int) -> None:
        of = entry(Category.MARKETING, parameter_schema=None, sample={"mersisNo": "0123456789000015"})
        parts = {"subject": "a", "text": f"{self.SENDER} {self.WAY_OUT}", "html": html}
        report = check("EMAIL", parts, of)
        assert [problem.part for problem in report.errors] == ["marketing"] * errors

    def test_a_push_carries_neither(self) -> None:
        assert check("PUSH", {"title": "a", "body": "b"}, entry(Category.MARKETING)).errors == ()

    def test_another_countrys_profile(self) -> None:
        parts, spec = {"subject": "a", "text": f"Sale {self.WAY_OUT}"}, DEFAULT_CHANNELS.spec("EMAIL")
        for profile, errors in (("TR", 1), ("EU", 0), ("NONE", 0)):
            report = check_template(entry(Category.MARKETING), spec, "en", parts, {}, profile=profile)
            assert len(report.errors) == errors

    def test_others_need_neither(self) -> None:
        assert check("EMAIL", {"subject": "a", "text": "b"}).errors == ()
