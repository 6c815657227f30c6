"""Kill, restart and empty parts of a running stack: nothing accepted may be lost (issue: done when)."""

import shutil
import signal

import pytest

from tests.e2e.stack import Stack
from tests.e2e.traffic import DELIVERIES_PER_ORDER, Traffic, account, doubles

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


def _all_arrived(stack: Stack, traffic: Traffic) -> None:
    statuses = account(traffic)
    assert set(statuses) <= {"SENT", "DELIVERED"}, statuses
    assert statuses.total() == len(traffic.orders) * DELIVERIES_PER_ORDER + len(traffic.codes)
    for provider, wanted in (
        ("apns", len(traffic.orders)),
        ("fcm", len(traffic.orders)),
        ("smtp", len(traffic.orders)),
    ):
        references = {message["reference"] for message in stack.arrived(provider) if message["accepted"]}
        assert len(references) >= wanted, provider


@pytest.mark.parametrize(
    "service", ["ingest", "ingest-otp", "relay", "router", "workers", "callbacks", "me", "projector", "simulator"]
)
def test_kill_minus_nine_loses_nothing(stack: Stack, service: str) -> None:
    """SIGKILL twice under traffic, at moments that the traffic decides."""
    if service != "simulator":
        stack.forget_messages()
    with Traffic(stack) as traffic:
        for accepted in (5, 23):
            traffic.wait_for(len(traffic.orders) + accepted)
            stack.kill(service)
    if service == "simulator":  # its ledger is in memory and died with it: only our account can be asked
        assert set(account(traffic)) <= {"SENT", "DELIVERED"}
    else:
        _all_arrived(stack, traffic)
        if service not in {"workers", "simulator"}:  # a killed worker may have sent without recording (at least once)
            assert doubles(stack, "apns") + doubles(stack, "fcm") + doubles(stack, "smtp") == 0


@pytest.mark.parametrize("server", ["kafka", "postgres", "valkey"])
def test_a_server_restart_loses_nothing(stack: Stack, server: str) -> None:
    stack.forget_messages()
    with Traffic(stack) as traffic:
        traffic.wait_for(10)
        stack.kill(server)
        traffic.wait_for(len(traffic.orders) + 10)
    _all_arrived(stack, traffic)


def test_emptied_broker_loses_nothing(stack: Stack) -> None:
    """Everything Kafka held is gone: hints of accepted and of decided work are published again from the rows."""
    stack.forget_messages()
    stack.signal("workers", signal.SIGSTOP)
    with Traffic(stack) as traffic:
        traffic.wait_for(10)  # decided, their hints wait in the lanes
        stack.signal("router", signal.SIGSTOP)
        traffic.wait_for(20)  # accepted, their hints wait in the router's inputs
    stack.down()
    shutil.rmtree(stack.state_dir / "kafka")
    stack.up()
    _all_arrived(stack, traffic)


def test_no_kill_left_an_orphan_or_forgotten_work(stack: Stack) -> None:
    """After all of the above: the audit's rules hold in every partition (ADR 0002)."""
    assert "no orphans" in stack.ulak("db", "audit")
