"""Which word stands, and how a word is written for the registry."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.address import target_key
from shared.core.consent import (
    FUTURE,
    IYS_CHANNELS,
    IYS_TYPES,
    InvalidConsentError,
    Source,
    Word,
    check_word,
    iys_date,
    iys_source,
    iys_status,
    outweighs,
    parse_iys_date,
    standing,
    user_subject,
)
from shared.core.sealing import KeyRing

AT = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
YES, NO = Word(True, AT), Word(False, AT)

words = st.builds(
    Word,
    granted=st.booleans(),
    at=st.integers(0, 5).map(lambda steps: AT + steps * timedelta(microseconds=1)),
)


@pytest.mark.parametrize(
    ("new", "old", "wins"),
    [
        pytest.param(Word(True, AT + SECOND), NO, True, id="a-later-consent"),
        pytest.param(Word(False, AT + SECOND), YES, True, id="a-later-refusal"),
        pytest.param(NO, YES, True, id="a-refusal-wins-a-tie"),
        pytest.param(YES, NO, False, id="a-consent-loses-a-tie"),
        pytest.param(YES, YES, False, id="the-same-again"),
        pytest.param(Word(False, AT - SECOND), YES, False, id="a-refusal-that-comes-late-but-was-earlier"),
    ],
)
def test_the_latest_word_stands_and_a_refusal_wins_a_tie(new: Word, old: Word, wins: bool) -> None:
    assert outweighs(new, old) is wins


@given(st.lists(words, max_size=6), st.randoms(use_true_random=False), st.integers(1, 3))
def test_order_and_multiplicity_do_not_matter(said: list[Word], random: object, times: int) -> None:
    again = said * times
    random.shuffle(again)  # type: ignore[attr-defined]
    assert standing(again) == standing(said)


@given(st.lists(words, min_size=1, max_size=6))
def test_what_stands_is_the_latest_and_a_refusal_if_one_is_as_late(said: list[Word]) -> None:
    found = standing(said)
    latest = max(word.at for word in said)
    assert found == Word(all(word.granted for word in said if word.at == latest), latest)


def test_nothing_said_is_nothing_granted() -> None:
    assert standing([]) is None


def test_a_user_is_no_address(key_ring: KeyRing) -> None:
    subjects = {user_subject(key_ring, 7), user_subject(key_ring, 8), target_key(key_ring, "PUSH", "7")}
    assert len(subjects) == 3
    assert {len(subject) for subject in subjects} == {32}


@pytest.mark.parametrize(
    ("word", "source", "path"),
    [
        pytest.param(Word(False, AT + FUTURE + SECOND), Source.HS_WEB, "at", id="future"),
        pytest.param(YES, Source.HS_KARAR, "source", id="our-own-decision-is-no-consent"),
        pytest.param(YES, Source.ONE_CLICK, "source", id="unsubscribing-is-no-consent"),
    ],
)
def test_what_cannot_be_true_is_refused(word: Word, source: Source, path: str) -> None:
    with pytest.raises(InvalidConsentError) as caught:
        check_word(word, source, AT)
    assert caught.value.path == path


def test_clocks_may_differ_a_little() -> None:
    check_word(Word(True, AT + FUTURE), Source.HS_WEB, AT)
    check_word(NO, Source.HS_KARAR, AT)


@pytest.mark.parametrize(
    ("word", "source", "date"),
    [
        pytest.param(Word(True, AT), Source.HS_WEB, "2026-12-01 12:00:00", id="three-hours-ahead"),
        pytest.param(
            Word(True, AT + timedelta(milliseconds=900)), Source.HS_WEB, "2026-12-01 12:00:00", id="consent-down"
        ),
        pytest.param(
            Word(False, AT + timedelta(milliseconds=100)), Source.HS_WEB, "2026-12-01 12:00:01", id="refusal-up"
        ),
        pytest.param(Word(False, AT), Source.HS_WEB, "2026-12-01 12:00:00", id="whole-second"),
        pytest.param(Word(True, AT), Source.HS_2015, "2015-05-01 00:00:00", id="before-the-law"),
    ],
)
def test_the_registrys_dates(word: Word, source: Source, date: str) -> None:
    assert iys_date(word, source) == date


@given(st.timedeltas(timedelta(0), timedelta(days=30_000)).map(lambda later: AT + later))
def test_a_refusal_after_a_consent_is_always_later_there(at: datetime) -> None:
    refusal = iys_date(Word(False, at + timedelta(microseconds=1)), Source.HS_WEB)
    assert refusal > iys_date(Word(True, at), Source.HS_WEB)
    assert abs(parse_iys_date(refusal) - at) <= SECOND


def test_every_source_but_the_registry_itself_has_its_code() -> None:
    for source in Source:
        if source is Source.IYS:
            with pytest.raises(ValueError, match="not told"):
                iys_source(source)
        else:
            assert iys_source(source).startswith("HS_")
    assert [iys_status(granted) for granted in (True, False)] == ["ONAY", "RET"]


def test_push_and_inbox_have_no_type_in_the_registry() -> None:
    assert IYS_TYPES == {"SMS": "MESAJ", "EMAIL": "EPOSTA"}
    assert [IYS_CHANNELS[IYS_TYPES[channel]] for channel in IYS_TYPES] == list(IYS_TYPES)
    assert not set(itertools.chain(IYS_TYPES)) & {"PUSH", "INBOX"}
