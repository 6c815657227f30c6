"""What a text costs; the right values are those of 3GPP TS 23.038 and 23.040, worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.segment import ALL_ENCODINGS, Encoding, Segments, pack, room, segments

E = Encoding


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        (E.GSM7, (160, 153)),
        (E.GSM7_TURKISH_SINGLE, (155, 149)),
        (E.GSM7_TURKISH_BOTH, (152, 146)),
        (E.UCS2, (70, 67)),
    ],
)
def test_capacity_after_the_user_data_header_S3(encoding: Encoding, expected: tuple[int, int]) -> None:
    single, part = expected
    assert room("", encoding) == single
    assert room("a" * single, encoding) == 0
    assert room("a" * (single + 1), encoding) == part - (single + 1 - part)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", Segments(E.GSM7, 1, 0), id="empty"),
        pytest.param("a" * 160, Segments(E.GSM7, 1, 160), id="full"),
        pytest.param("a" * 161, Segments(E.GSM7, 2, 161), id="one-more"),
        pytest.param("a" * 306, Segments(E.GSM7, 2, 306), id="two-full"),
        pytest.param("a" * 307, Segments(E.GSM7, 3, 307), id="three"),
        pytest.param("]" * 80, Segments(E.GSM7, 1, 160), id="escapes-fill-one"),
        pytest.param("]" * 153, Segments(E.GSM7, 3, 306), id="escape-at-a-boundary-S1"),
        pytest.param("ş" + "]" * 69, Segments(E.UCS2, 1, 70), id="bracket-counts-one-in-ucs2-S1"),
        pytest.param("ş" * 71, Segments(E.UCS2, 2, 71), id="ucs2-two"),
        pytest.param("ş" * 135, Segments(E.UCS2, 3, 135), id="ucs2-three"),
        pytest.param("😀" * 35, Segments(E.UCS2, 1, 70), id="pairs-fill-one"),
        pytest.param("😀" * 67, Segments(E.UCS2, 3, 134), id="a-surrogate-pair-is-not-cut"),
        pytest.param("ÇöGüÑß", Segments(E.GSM7, 1, 6), id="letters-of-the-basic-set"),
        pytest.param("a" * 153 + "ş", Segments(E.UCS2, 3, 154), id="without-tables-S3"),
    ],
)
def test_as_twilio_sends(text: str, expected: Segments) -> None:
    assert segments(text) == expected


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        pytest.param("a" * 153 + "ş", E.GSM7_TURKISH_SINGLE, Segments(E.GSM7_TURKISH_SINGLE, 1, 155), id="single-S3"),
        pytest.param("a" * 153 + "ş", E.GSM7_TURKISH_BOTH, Segments(E.GSM7_TURKISH_BOTH, 2, 154), id="both-S3"),
        pytest.param("ş" * 152, E.GSM7_TURKISH_BOTH, Segments(E.GSM7_TURKISH_BOTH, 1, 152), id="both-one-each"),
        pytest.param("€" * 152, E.GSM7_TURKISH_BOTH, Segments(E.GSM7_TURKISH_BOTH, 1, 152), id="euro-locking"),
        pytest.param("è", E.GSM7_TURKISH_BOTH, None, id="è-gave-its-place-to-euro"),
        pytest.param("ş", E.GSM7, None, id="never-replaced-S3"),
    ],
)
def test_one_encoding(text: str, encoding: Encoding, expected: Segments | None) -> None:
    assert pack(text, encoding) == expected


def test_the_cheapest_table_wins_S3() -> None:
    assert segments("a" * 153 + "ş", ALL_ENCODINGS).encoding is E.GSM7_TURKISH_SINGLE
    assert segments("ş" * 100, ALL_ENCODINGS) == Segments(E.GSM7_TURKISH_BOTH, 1, 100)


def test_no_encoding_fits() -> None:
    with pytest.raises(ValueError, match="offer UCS2"):
        segments("ş", (E.GSM7,))


@given(st.text(max_size=400))
def test_every_text_has_a_segmentation_that_holds_it(text: str) -> None:
    found = segments(text, ALL_ENCODINGS)
    left = room(text, found.encoding)
    assert found.count >= 1
    assert pack(text + "a" * left, found.encoding) == Segments(found.encoding, found.count, found.units + left)
    assert pack(text + "a" * (left + 1), found.encoding).count > found.count  # type: ignore[union-attr]


def test_room_is_what_the_last_segment_has_after_cuts_S1() -> None:
    assert room("😀" * 34, E.UCS2) == 70 - 68
    assert room("😀" * 67, E.UCS2) == 67 - 2  # 33 to a part of 67, so one unit of each is lost


def test_room_in_an_encoding_that_does_not_hold_the_text() -> None:
    with pytest.raises(ValueError, match="does not hold"):
        room("ş", E.GSM7)


@given(st.text(alphabet="ab]ş", max_size=400))
def test_more_tables_never_cost_more(text: str) -> None:
    assert segments(text, ALL_ENCODINGS).count <= segments(text).count
