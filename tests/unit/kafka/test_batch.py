"""A batch counts only when its handler has returned and its dead letters are acknowledged."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from shared.kafka.backlog import Backlog, Entry, Problem, Raw
from shared.kafka.batch import BatchRunner
from shared.kafka.dead_letters import DeadLetterWriter
from shared.kafka.intake import RetryDelay
from shared.kafka.memory import InMemoryProducer
from shared.kafka.metrics import MetricsObserver
from shared.kafka.record import Handler, Partition, Received, Rejection

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
P0, P1 = Partition("t", 0), Partition("t", 1)


class Desk:
    """The poller's side, without thread and broker."""

    def __init__(self) -> None:
        self.dead_letters_failing = False
        self.stopping = False
        self.was_failing = False
        self.backlog: Backlog[str] = Backlog()
        self.backlog.assign([P0, P1])

    def live(self, entries: Sequence[Entry[str]]) -> list[Entry[str]]:
        self.was_failing = self.was_failing or self.dead_letters_failing
        live = self.backlog.live(entries)
        self.backlog.release([entry for entry in entries if entry not in live])
        return live

    def finish(self, entries: Sequence[Entry[str]]) -> None:
        self.backlog.finish(entries)

    def release(self, entries: Sequence[Entry[str]]) -> None:
        self.backlog.release(entries)

    def batch(self, *values: str, partition: Partition = P0) -> list[Entry[str]]:
        for offset, value in enumerate(values):
            entry: Entry[str] = Entry(partition, offset, Raw(b"k", value.encode(), ()), NOW, NOW)
            if value == "poison":
                entry.problem = Problem("MalformedMessageError", "broken")
            else:
                entry.received = Received(value, partition.topic, partition.number, offset, b"k", {}, NOW)
            self.backlog.add(entry)
        return self.backlog.take(100, NOW)


def runner(desk: Desk, handle: Handler[str], producer: InMemoryProducer) -> BatchRunner[str]:
    return BatchRunner(
        desk,
        group="g",
        handle=handle,
        dead_letters=DeadLetterWriter(producer, dlq_topic="t-dlq", service_version="1"),
        retry_delay=RetryDelay(base_sec=0.0),
        jitter=lambda: 0.0,
        observer=MetricsObserver(),
    )


def recording(calls: list[list[str]], answer: Callable[[int], Sequence[Rejection]] = lambda _call: ()) -> Handler[str]:
    async def handle(batch: Sequence[Received[str]]) -> Sequence[Rejection]:
        calls.append([message.value for message in batch])
        return answer(len(calls))

    return handle


async def test_a_batch_whose_handler_returns_counts() -> None:
    desk, calls = Desk(), list[list[str]]()
    await runner(desk, recording(calls), InMemoryProducer()).run(desk.batch("a", "b"))
    assert calls == [["a", "b"]]
    assert desk.backlog.to_commit() == {P0: 2}
    assert desk.backlog.in_flight() == 0


async def test_a_handler_that_raises_gets_the_same_batch_again_and_nothing_counts_before() -> None:
    desk, calls = Desk(), list[list[str]]()

    def answer(call: int) -> Sequence[Rejection]:
        assert desk.backlog.to_commit() == {}
        if call < 3:
            raise ConnectionError("database is gone")
        return ()

    await runner(desk, recording(calls, answer), InMemoryProducer()).run(desk.batch("a", "b"))
    assert calls == [["a", "b"]] * 3
    assert desk.backlog.to_commit() == {P0: 2}


async def test_a_cancellation_that_leaks_out_of_a_handler_is_a_failure_like_any_other() -> None:
    desk, calls = Desk(), list[list[str]]()

    def answer(call: int) -> Sequence[Rejection]:
        if call == 1:
            raise asyncio.CancelledError
        return ()

    await runner(desk, recording(calls, answer), InMemoryProducer()).run(desk.batch("a"))
    assert calls == [["a"]] * 2
    assert desk.backlog.to_commit() == {P0: 1}


async def test_poison_goes_to_the_dead_letters_and_the_others_to_the_handler_K7() -> None:
    desk, calls, producer = Desk(), list[list[str]](), InMemoryProducer()
    await runner(desk, recording(calls), producer).run(desk.batch("a", "poison", "b"))
    assert calls == [["a", "b"]]
    assert [record.value for record in producer.on("t-dlq")] == [b"poison"]
    assert desk.backlog.to_commit() == {P0: 3}


async def test_a_batch_of_poison_alone_calls_no_handler_K7() -> None:
    desk, calls, producer = Desk(), list[list[str]](), InMemoryProducer()
    await runner(desk, recording(calls), producer).run(desk.batch("poison"))
    assert calls == []
    assert desk.backlog.to_commit() == {P0: 1}


async def test_what_the_handler_rejects_is_dead_lettered_with_its_reason_and_attempts() -> None:
    desk, calls, producer = Desk(), list[list[str]](), InMemoryProducer()

    def answer(call: int) -> Sequence[Rejection]:
        if call == 1:
            raise TimeoutError
        return [Rejection(1, "UnknownMapping", "no mapping for this event")]

    await runner(desk, recording(calls, answer), producer).run(desk.batch("poison", "a", "b"))
    letters = {record.value: dict(record.headers) for record in producer.on("t-dlq")}
    assert letters.keys() == {b"poison", b"b"}
    assert letters[b"b"]["ulak-dlq-error-class"] == b"UnknownMapping"
    assert letters[b"b"]["ulak-dlq-offset"] == b"2"
    assert letters[b"b"]["ulak-dlq-attempts"] == b"2"
    assert desk.backlog.to_commit() == {P0: 3}


async def test_a_rejection_of_nothing_is_a_failure_of_the_handler() -> None:
    desk, calls, producer = Desk(), list[list[str]](), InMemoryProducer()
    handle = recording(calls, lambda call: [Rejection(7, "x", "y")] if call == 1 else ())
    await runner(desk, handle, producer).run(desk.batch("a"))
    assert len(calls) == 2
    assert producer.records == []


async def test_a_failed_dead_letter_write_is_repeated_and_nothing_counts_before_K7() -> None:
    desk, calls, producer = Desk(), list[list[str]](), InMemoryProducer()
    producer.fail_next("NOT_ENOUGH_REPLICAS")
    await runner(desk, recording(calls), producer).run(desk.batch("a", "poison"))
    assert desk.was_failing
    assert not desk.dead_letters_failing
    assert calls == [["a"]]
    assert len(producer.records) == 1
    assert desk.backlog.to_commit() == {P0: 2}


async def test_a_dead_letter_that_cannot_be_written_at_shutdown_is_left_uncommitted_K7() -> None:
    desk, producer = Desk(), InMemoryProducer()
    producer.fail_next("NOT_ENOUGH_REPLICAS")
    desk.stopping = True
    await runner(desk, recording([]), producer).run(desk.batch("a", "poison"))
    assert desk.backlog.to_commit() == {}
    assert desk.backlog.in_flight() == 0


async def test_entries_of_a_lost_partition_leave_the_batch_before_its_next_try_K4() -> None:
    desk, calls = Desk(), list[list[str]]()

    def answer(call: int) -> Sequence[Rejection]:
        if call == 1:
            desk.backlog.drop([P0])
            raise ConnectionError
        return ()

    desk.backlog.add(Entry(P0, 0, Raw(None, b"a", ()), NOW, NOW, Received("a", "t", 0, 0, None, {}, NOW)))
    batch = desk.batch("b", partition=P1)
    await runner(desk, recording(calls, answer), InMemoryProducer()).run(batch)
    assert sorted(calls[0]) == ["a", "b"]
    assert calls[1:] == [["b"]]
    assert desk.backlog.to_commit() == {P1: 1}


async def test_a_cancelled_batch_is_released_undone_G1() -> None:
    desk, started = Desk(), asyncio.Event()

    async def hang(_batch: Sequence[Received[str]]) -> Sequence[Rejection]:
        started.set()
        await asyncio.Event().wait()
        return ()

    task = asyncio.create_task(runner(desk, hang, InMemoryProducer()).run(desk.batch("a")))
    await started.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert desk.backlog.in_flight() == 0
    assert desk.backlog.to_commit() == {}
