from datetime import UTC, datetime, timedelta

import pytest

from ops.simulator.ledger import Arrival, Ledger, Query, Result

NOW = datetime(2026, 11, 30, 20, 0, tzinfo=UTC)
ACCEPTED = Result(accepted=True, status=200)
REFUSED = Result(accepted=False, status=503)


def arrival(to: str = "a", reference: str | None = "r1", *everyone: str) -> Arrival:
    return Arrival(to, reference, {"x": "y" * 10}, everyone)


def seqs(ledger: Ledger, query: Query) -> list[int]:
    return [entry.seq for entry in ledger.select(query)[0]]


def filled() -> Ledger:
    ledger = Ledger(100, 10_000)
    ledger.add("apns", arrival("a", "r1"), ACCEPTED, NOW)
    ledger.add("smtp", arrival("b", "r2", "b", "c"), ACCEPTED, NOW + timedelta(seconds=1))
    ledger.add("apns", arrival("a", "r1"), REFUSED, NOW + timedelta(seconds=2))
    return ledger


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(Query(), [1, 2, 3], id="all-in-order"),
        pytest.param(Query(provider="apns"), [1, 3], id="provider"),
        pytest.param(Query(to="c"), [2], id="any-recipient"),
        pytest.param(Query(to="b"), [2], id="first-recipient"),
        pytest.param(Query(reference="r1"), [1, 3], id="reference"),
        pytest.param(Query(accepted=False), [3], id="refused"),
        pytest.param(Query(received_from=NOW + timedelta(seconds=1)), [2, 3], id="since-a-time"),
        pytest.param(Query(after_seq=2), [3], id="after"),
        pytest.param(Query(after_seq=9), [], id="after-the-end"),
    ],
)
def test_select(query: Query, expected: list[int]) -> None:
    assert seqs(filled(), query) == expected


def test_a_page_says_whether_more_follow() -> None:
    ledger = filled()
    entries, more = ledger.select(Query(limit=2))
    assert ([entry.seq for entry in entries], more) == ([1, 2], True)
    assert ledger.select(Query(limit=3))[1] is False


def test_doubles_are_counted_by_accepted_calls() -> None:
    ledger = filled()
    assert (ledger.tally("r1").calls, ledger.tally("r1").accepted) == (2, 1)
    assert ledger.stats()["references"] == {"distinct": 2, "acceptedMoreThanOnce": 0, "forgotten": 0}
    ledger.add("apns", arrival("a", "r1"), ACCEPTED, NOW)
    assert ledger.stats()["references"] == {"distinct": 2, "acceptedMoreThanOnce": 1, "forgotten": 0}


def test_the_oldest_entries_go_but_counts_stay() -> None:
    ledger = Ledger(max_entries=2, max_bytes=10_000)
    for _ in range(5):
        ledger.add("apns", arrival(), ACCEPTED, NOW)
    assert seqs(ledger, Query()) == [4, 5]
    assert ledger.tally("r1").accepted == 5


def test_bytes_are_bounded_too() -> None:
    ledger = Ledger(max_entries=100, max_bytes=50)
    for _ in range(5):
        ledger.add("apns", arrival(), ACCEPTED, NOW)
    assert seqs(ledger, Query()) == [4, 5]


def test_withdrawing_turns_an_accepted_entry_into_an_unprocessed_one() -> None:
    ledger = filled()
    ledger.withdraw(1, "GOAWAY")
    (entry,) = ledger.select(Query(limit=1))[0]
    assert (entry.result.accepted, entry.result.status, entry.result.error) == (False, None, "GOAWAY")
    assert (ledger.tally("r1").calls, ledger.tally("r1").accepted) == (2, 0)


def test_sequence_numbers_go_on_after_clear() -> None:
    ledger = filled()
    ledger.clear()
    assert ledger.add("apns", arrival(), ACCEPTED, NOW) == 4
    assert seqs(ledger, Query(after_seq=3)) == [4]
    assert ledger.tally("r2").calls == 0
