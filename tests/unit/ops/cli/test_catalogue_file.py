"""Catalogue files: what they say, and every mistake told by file and field."""

from datetime import timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from ops.cli.catalogue_file import CatalogueFiles, read_catalogue_files
from shared.wire.channel import DEFAULT_CHANNELS, Category, MessageClass

TYPES = "types: {T: {category: TRANSACTIONAL, channels: [SMS], ttl: 1h, sample: {ad: Ali}}}\n"


def read(path: Path) -> CatalogueFiles:
    return read_catalogue_files(path, DEFAULT_CHANNELS, known_types={}, profile="TR")


def write(root: Path, **contents: str) -> Path:
    for name, text in contents.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_the_sample_catalogue_is_sound() -> None:
    found = read(Path(str(files("ops.demo") / "sample" / "catalogue")))
    assert found.problems == ()
    assert {new.type.name for new in found.push.types} == {
        "ORDER_PLACED",
        "ORDER_SHIPPED",
        "ORDER_DELIVERED",
        "OTP",
        "PASSWORD_CHANGED",
        "NOVEMBER_SALE",
    }
    assert {template.locale for template in found.push.templates} == {"tr", "en"}
    assert {new.type.name: new.type.sender_profile for new in found.push.types if new.type.sender_profile} == {
        "ORDER_PLACED": "orders",
        "ORDER_SHIPPED": "orders",
    }


def test_a_single_file_may_hold_all(tmp_path: Path) -> None:
    write(tmp_path, all_DOT_yaml=TYPES + "templates: {T: {sms.tr: {text: 'Merhaba {{ ad }}'}}}\n")
    found = read(tmp_path / "all.yaml")
    assert found.problems == ()
    (template,) = found.push.templates
    assert (template.type_name, template.channel, template.locale, template.parameters) == (
        "T",
        "SMS",
        "tr",
        frozenset({"ad"}),
    )


def test_parts_may_stand_in_files_of_their_own(tmp_path: Path) -> None:
    write(
        tmp_path,
        types_DOT_yaml="types: {T: {category: TRANSACTIONAL, channels: [EMAIL], ttl: 1h, sample: {ad: Ali}}}\n",
        templates__T__email_DOT_tr_DOT_subject_DOT_txt="Konu",
        templates__T__email_DOT_tr_DOT_text_DOT_txt="Metin",
        templates__T__email_DOT_tr_DOT_html="<p>{{ ad }}</p>",
    )
    found = read(tmp_path)
    assert found.problems == ()
    assert dict(found.push.templates[0].parts) == {"subject": "Konu", "text": "Metin", "html": "<p>{{ ad }}</p>"}


@pytest.mark.parametrize(
    ("ttl", "seconds"), [("180s", 180), ("15m", 900), ("12h", 43_200), ("2d", 172_800), ("90", 90)]
)
def test_durations(tmp_path: Path, ttl: str, seconds: int) -> None:
    write(tmp_path, t_DOT_yaml=f"types: {{T: {{category: SECURITY, channels: [SMS], ttl: {ttl}}}}}\n")
    assert read(tmp_path).push.types[0].type.ttl == timedelta(seconds=seconds)


def test_a_class_below_the_categorys_is_taken(tmp_path: Path) -> None:
    write(tmp_path, t_DOT_yaml="types: {T: {category: TRANSACTIONAL, class: low, channels: [EMAIL], ttl: 1h}}\n")
    found = read(tmp_path)
    assert (found.push.types[0].type.category, found.push.types[0].type.message_class) == (
        Category.TRANSACTIONAL,
        MessageClass.LOW,
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "types: {T: {category: FUN, channels: [SMS], ttl: 1h}}", "f.yaml: types.T.category: ", id="category"
        ),
        pytest.param(
            "types: {T: {category: SECURITY, channels: [FAX], ttl: 1h}}",
            "types.T.channels: unknown channel 'FAX'",
            id="channel",
        ),
        pytest.param(
            "types: {T: {category: SECURITY, channels: [SMS], ttl: soon}}", "types.T.ttl: give a duration", id="ttl"
        ),
        pytest.param("types: {T: {category: SECURITY, channels: [SMS], ttl: 0s}}", "types.T.ttl: ", id="no-life"),
        pytest.param(
            "types: {T: {category: MARKETING, class: critical, channels: [SMS], ttl: 1h}}",
            "types.T.class: MARKETING may be lowered",
            id="class-raised",
        ),
        pytest.param(
            "types: {T: {category: SECURITY, channels: [SMS], ttl: 1h, colour: red}}",
            "types.T.colour: ",
            id="unknown-field",
        ),
        pytest.param("types: [", "f.yaml: not YAML: line", id="not-yaml"),
        pytest.param("", "f.yaml: empty", id="empty"),
        pytest.param(
            TYPES + "templates: {T: {sms.tr: {text: '{{ a'}}}", "T SMS tr: text, line 1: ", id="template-syntax"
        ),
        pytest.param(
            TYPES + "templates: {T: {email.tr: {subject: a}}}",
            "T EMAIL tr: text: EMAIL needs this part",
            id="missing-part",
        ),
        pytest.param(
            TYPES + "templates: {T: {fax.tr: {text: a}}}",
            "templates.T.fax.tr: unknown channel 'FAX'",
            id="template-channel",
        ),
        pytest.param(TYPES + "templates: {T: {sms.turkish!: {text: a}}}", "is not a locale", id="locale"),
        pytest.param("templates: {U: {sms.tr: {text: a}}}", "no type U", id="template-without-type"),
        pytest.param(
            "mappings: {m: {event: e, type: U, recipient: data.id}}",
            "mappings.m.type: no type U",
            id="mapping-without-type",
        ),
        pytest.param(
            TYPES + "mappings: {m: {event: e, type: T, recipient: 'data.['}}",
            "mappings.m.recipient: `data.[` is not a JMESPath",
            id="jmespath",
        ),
        pytest.param(
            TYPES + "mappings: {m: {event: e, type: T, recipient: id, params: {unsubscribeUrl: id}}}",
            "mappings.m.params.unsubscribeUrl: Ulak fills",
            id="mapping-gives-what-is-ours-E8",
        ),
        pytest.param(
            "types: {T: {category: SECURITY, channels: [SMS], ttl: 1h, sample: {unsubscribeUrl: x}}}",
            "types.T.sample.unsubscribeUrl: Ulak fills",
            id="sample-of-what-is-ours-E8",
        ),
        pytest.param(
            TYPES
            + "templates: {T: {sms.tr: {text: '{{ a }} {{ b }}'}}}\n"
            + "mappings: {m: {event: e, type: T, recipient: id, params: {a: id}}}",
            "mappings.m.params: b missing, which the SMS template in tr needs",
            id="mapping-gives-too-little",
        ),
        pytest.param(
            "applications: {a: {sources: [/x]}, b: {sources: [/x]}}",
            "applications.b.sources: '/x' belongs to a",
            id="source-twice",
        ),
    ],
)
def test_a_mistake_is_told_by_file_and_field(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path, f_DOT_yaml=text)
    assert any(problem in str(found) for found in read(tmp_path).problems), read(tmp_path).problems


def test_the_same_name_in_two_files(tmp_path: Path) -> None:
    write(tmp_path, a_DOT_yaml=TYPES, b_DOT_yaml=TYPES)
    assert [str(found) for found in read(tmp_path).problems] == ["b.yaml: types.T: stands in a.yaml as well"]


def test_a_file_of_another_kind_among_the_templates(tmp_path: Path) -> None:
    write(tmp_path, t_DOT_yaml=TYPES, templates__T__sms_DOT_docx="x")
    assert [problem.file for problem in read(tmp_path).problems] == ["templates/T/sms.docx"]


def test_a_folder_without_any(tmp_path: Path) -> None:
    assert "no catalogue here" in str(read(tmp_path).problems[0])
