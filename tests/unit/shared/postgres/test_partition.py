"""Names and bounds of daily partitions."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.identifier import lowest_id_at
from shared.postgres.partition import Partition, day_of, days, parse_name, partitions

DAYS = st.dates(min_value=date(1970, 1, 1), max_value=date(9999, 12, 30))


def test_a_day_by_hand() -> None:
    """2026-01-15 begins 1,768,435,200,000 ms after 1970 (0x19bbef3b000), the next day 86,400,000 later (+0x5265c00)."""
    partition = Partition("deliveries", date(2026, 1, 15))
    assert partition.name == "deliveries_20260115"
    assert partition.lower == UUID("019bbef3-b000-0000-0000-000000000000")
    assert partition.upper == UUID("019bc41a-0c00-0000-0000-000000000000")


@given(DAYS)
def test_days_meet_without_gap_or_overlap(day: date) -> None:
    assert Partition("contents", day).upper == Partition("contents", day + timedelta(days=1)).lower


@given(
    st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 30)),  # noqa: DTZ001  # made UTC below
    st.integers(0, 2**80 - 1),
)
def test_an_id_lies_in_its_day(moment: datetime, rest: int) -> None:
    value = UUID(int=lowest_id_at(moment.replace(tzinfo=UTC)).int | rest)
    partition = Partition("notifications", day_of(value))
    assert partition.day == moment.date()
    assert partition.lower <= value < partition.upper


@given(DAYS, st.sampled_from(["notifications", "deliveries", "contents", "delivery_log"]))
def test_names_read_back(day: date, table: str) -> None:
    assert parse_name(Partition(table, day).name) == Partition(table, day)


@pytest.mark.parametrize(
    "name", ["deliveries", "deliveries_default", "deliveries_20261301", "deliveries_2026011", "orders_20260115", ""]
)
def test_a_foreign_name_is_none_of_ours(name: str) -> None:
    assert parse_name(name) is None


def test_all_tables_of_all_days() -> None:
    found = partitions(date(2026, 2, 28), date(2026, 3, 1))
    assert len(found) == len(set(found)) == 8
    assert {partition.day for partition in found} == {date(2026, 2, 28), date(2026, 3, 1)}
    assert found[3].table == found[7].table == "notifications"  # the last of a day to go


def test_days_are_those_that_all_tables_have() -> None:
    found = set(partitions(date(2026, 1, 1), date(2026, 1, 3))) - {Partition("contents", date(2026, 1, 2))}
    assert days(found) == (date(2026, 1, 1), date(2026, 1, 3))
