"""Ids outside and inside: TypeIDs as their specification says, UUIDv7 as RFC 9562 says."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.identifier import (
    InvalidIdError,
    created_at,
    lowest_id_at,
    new_id,
    parse_public_id,
    public_id,
)

MILLISECONDS = st.integers(min_value=0, max_value=253_402_214_400_000)  # to the end of 9999
MOMENTS = st.builds(
    lambda milliseconds, rest: (
        datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds, microseconds=rest)
    ),
    MILLISECONDS,
    st.integers(min_value=0, max_value=999),
)


@pytest.mark.parametrize(
    ("prefix", "text", "value"),
    [
        pytest.param("ntf", "ntf_00000000000000000000000000", "00000000-0000-0000-0000-000000000000", id="nil"),
        pytest.param("ntf", "ntf_00000000000000000000000001", "00000000-0000-0000-0000-000000000001", id="one"),
        pytest.param("ntf", "ntf_0000000000000000000000000g", "00000000-0000-0000-0000-000000000010", id="sixteen"),
        pytest.param("ntf", "ntf_00000000000000000000000010", "00000000-0000-0000-0000-000000000020", id="thirty-two"),
        pytest.param("ntf", "ntf_7zzzzzzzzzzzzzzzzzzzzzzzzz", "ffffffff-ffff-ffff-ffff-ffffffffffff", id="max"),
        pytest.param(
            "prefix", "prefix_0123456789abcdefghjkmnpqrs", "0110c853-1d09-52d8-d73e-1194e95b5f19", id="alphabet"
        ),
        pytest.param("prefix", "prefix_01h455vb4pex5vsknk084sn02q", "01890a5d-ac96-774b-bcce-b302099a8057", id="v7"),
    ],
)
def test_typeid_of_the_specification(prefix: str, text: str, value: str) -> None:
    """The valid examples of the TypeID specification 0.3, in both directions."""
    assert public_id(prefix, UUID(value)) == text
    assert parse_public_id(prefix, text) == UUID(value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("ntf_", id="no-suffix"),
        pytest.param("ntf_01h455vb4pex5vsknk084sn02", id="too-short"),
        pytest.param("ntf_01h455vb4pex5vsknk084sn02qq", id="too-long"),
        pytest.param("ntf_8zzzzzzzzzzzzzzzzzzzzzzzzz", id="over-128-bits"),
        pytest.param("ntf_01H455VB4PEX5VSKNK084SN02Q", id="upper-case"),
        pytest.param("ntf_01h455vb4pex5vsknk084sn02u", id="letter-outside-the-alphabet"),
        pytest.param("NTF_01h455vb4pex5vsknk084sn02q", id="upper-case-prefix"),
        pytest.param("cmp_01h455vb4pex5vsknk084sn02q", id="another-kind"),
        pytest.param("_01h455vb4pex5vsknk084sn02q", id="no-prefix"),
        pytest.param("ntf_01h455vb4pex5vsknk084sn02ş", id="not-ascii"),
        pytest.param("order-98213", id="something-else"),
        pytest.param("1" * 10_000, id="huge"),
    ],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidIdError) as caught:
        parse_public_id("ntf", text)
    assert "ntf_" in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_plain_uuid_is_taken() -> None:
    assert parse_public_id("ntf", "01890a5d-ac96-774b-bcce-b302099a8057") == UUID(
        "01890a5d-ac96-774b-bcce-b302099a8057"
    )


@given(st.uuids(), st.uuids())
def test_public_ids_sort_as_their_uuids(one: UUID, other: UUID) -> None:
    assert (public_id("ntf", one) < public_id("ntf", other)) == (one < other)


@given(st.uuids())
def test_public_id_reads_back(value: UUID) -> None:
    assert parse_public_id("ntf", public_id("ntf", value)) == value


def test_new_ids_are_version_7_and_increase() -> None:
    ids = [new_id() for _ in range(2_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {(value.version, value.variant) for value in ids} == {(7, "specified in RFC 4122")}


def test_created_at_reads_the_example_of_rfc_9562() -> None:
    """Appendix A.6: Tuesday, February 22, 2022 2:22:22.00 PM GMT-05:00."""
    assert created_at(UUID("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")) == datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC)


def test_lowest_id_of_a_midnight() -> None:
    """2026-01-15 00:00 UTC is 1,768,435,200,000 ms after 1970, 0x19bbef3b000."""
    assert lowest_id_at(datetime(2026, 1, 15, tzinfo=UTC)) == UUID("019bbef3-b000-0000-0000-000000000000")


@given(MOMENTS)
def test_lowest_id_holds_the_millisecond_exactly(moment: datetime) -> None:
    """Floats of seconds would fall a millisecond short for some moments, and a row would miss its partition."""
    assert created_at(lowest_id_at(moment)) == moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@given(MOMENTS, st.integers(min_value=0, max_value=2**80 - 1))
def test_lowest_id_parts_earlier_from_later(moment: datetime, rest: int) -> None:
    bound = lowest_id_at(moment)
    this_millisecond = UUID(int=bound.int | rest)
    assert bound <= this_millisecond < lowest_id_at(moment + timedelta(milliseconds=1))


def test_an_id_past_the_calendar_is_refused() -> None:
    with pytest.raises(InvalidIdError):
        created_at(UUID(int=2**128 - 1))


def test_a_naive_moment_is_refused() -> None:
    with pytest.raises(TypeError):
        lowest_id_at(datetime(2026, 1, 15))  # noqa: DTZ001  # the fault this is about
