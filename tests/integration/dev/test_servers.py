"""`ulak dev` on real servers: data survives, nothing is left behind, several stacks live side by side."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from redis.asyncio import Redis

from ops.dev.environment import SERVER_SETTINGS
from ops.dev.paths import project_root
from tests.integration.dev.conftest import StackCli, all_gone, wait_for

SERVERS = ("--only", "servers")


async def leave_something(env: dict[str, str]) -> None:
    connection = await asyncpg.connect(env["ULAK_POSTGRES_DSN"])
    await connection.execute("CREATE TABLE kept (word text); INSERT INTO kept VALUES ('şehir')")
    await connection.close()
    async with Redis.from_url(env["ULAK_REDIS_URL"]) as client:
        await client.set("kept", "şehir")
    bootstrap: dict[str, str | int | float | bool] = {"bootstrap.servers": env["ULAK_KAFKA_BOOTSTRAP_SERVERS"]}
    admin = AdminClient(bootstrap)
    admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(30)
    producer = Producer(bootstrap)
    producer.produce("kept", "şehir".encode())
    assert producer.flush(30) == 0


async def find_it(env: dict[str, str]) -> tuple[str, str, str]:
    connection = await asyncpg.connect(env["ULAK_POSTGRES_DSN"])
    row = await connection.fetchval("SELECT word FROM kept")
    await connection.close()
    async with Redis.from_url(env["ULAK_REDIS_URL"], decode_responses=True) as client:
        value = str(await client.get("kept"))
    consumer = Consumer(
        {
            "bootstrap.servers": env["ULAK_KAFKA_BOOTSTRAP_SERVERS"],
            "group.id": "finder",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["kept"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    found = message.value()
    assert found is not None
    return str(row), value, found.decode()


async def test_data_survives_down_and_up_and_goes_with_wipe(stack: StackCli) -> None:
    stack.ok("up", *SERVERS)
    before = stack.env()
    await leave_something(before)
    pids = stack.everything()

    assert "Stopped." in stack.ok("down")
    assert all_gone(pids)
    stack.ok("up", *SERVERS)

    assert stack.env() == before, "ports and passwords stay"
    assert await find_it(stack.env()) == ("şehir", "şehir", "şehir")

    stack.ok("down", "--wipe")
    assert not stack.state.exists()
    stack.ok("up", *SERVERS)
    connection = await asyncpg.connect(stack.env()["ULAK_POSTGRES_DSN"])
    assert await connection.fetchval("SELECT to_regclass('kept')") is None
    await connection.close()


async def test_data_survives_a_killed_supervisor_and_no_process_does(stack: StackCli) -> None:
    stack.ok("up", *SERVERS)
    await leave_something(stack.env())
    pids = stack.everything()
    assert len(pids) > 5

    psutil.Process(stack.supervisor()).kill()

    wait_for("all processes gone", lambda: all_gone(pids), 60)
    assert json.loads(stack.ok("status", "--json")) == {"ready": False, "processes": []}
    assert "supervisor was killed" in stack.ok("status")
    stack.ok("up", *SERVERS)
    assert await find_it(stack.env()) == ("şehir", "şehir", "şehir")


def test_what_the_watchdog_and_the_kernel_missed_is_ended_at_the_next_down(stack: StackCli) -> None:
    stack.ok("up", *SERVERS)
    supervisor = psutil.Process(stack.supervisor())
    pids = stack.everything()
    watchdog = next(child for child in supervisor.children() if any("watchdog.py" in part for part in child.cmdline()))
    watchdog.kill()
    for name, process in stack.processes().items():
        if name != "postgres":  # stopped, they cannot die of a gentler signal than KILL
            psutil.Process(process["pid"]).suspend()
    supervisor.kill()
    stack.ok("down")
    wait_for("all processes gone", lambda: all_gone(pids), 60)


def test_an_interrupt_while_it_starts_leaves_nothing(stack: StackCli) -> None:
    starting = subprocess.Popen(
        stack.command("up", *SERVERS), env=stack.settings(), cwd=project_root(), stderr=subprocess.PIPE, text=True
    )
    wait_for("a server runs", lambda: stack.paths.status.exists() and '"starting"' in stack.paths.status.read_text())
    wait_for("valkey was started", lambda: any(item["pid"] for item in stack.processes().values()))
    pids = stack.everything()

    starting.send_signal(signal.SIGINT)

    _, said = starting.communicate(timeout=60)
    assert starting.returncode == 130
    assert "Interrupted" in said
    assert all_gone(pids)


def test_a_server_that_dies_is_started_again(stack: StackCli) -> None:
    stack.ok("up", *SERVERS)
    before = stack.processes()
    for name in before:
        psutil.Process(before[name]["pid"]).kill()

    def all_back() -> bool:
        now = stack.processes()
        return all(now[name]["restarts"] == 1 and now[name]["state"] == "ready" for name in before)

    wait_for("all three are ready again", all_back)
    assert {item["pid"] for item in before.values()}.isdisjoint(item["pid"] for item in stack.processes().values())


async def test_two_stacks_side_by_side_share_nothing(make_stack: Callable[[str], StackCli]) -> None:
    one, other = make_stack("one"), make_stack("other, with ş and a blank")
    with ThreadPoolExecutor(2) as both:
        list(both.map(lambda item: item.ok("up", *SERVERS), (one, other)))
    assert set(one.env().values()).isdisjoint(other.env().values())
    await leave_something(one.env())
    one.ok("down")
    assert {item["state"] for item in other.processes().values()} == {"ready"}


def test_up_twice_is_a_no_op_that_says_so(stack: StackCli) -> None:
    stack.ok("up", *SERVERS)
    before = stack.processes()
    assert stack.ok("up", *SERVERS).strip() == "The stack is already up."
    # Whoever evaluated `ulak dev env` in this shell still means the stack's own servers.
    assert stack.ok("up", *SERVERS, **stack.env()).strip() == "The stack is already up."
    assert stack.processes() == before
    env = stack.env()
    stack.ok("down")
    stack.ok("up", *SERVERS, **env)
    assert stack.processes().keys() == before.keys()


def test_a_second_up_while_the_first_works_is_refused_in_one_sentence(stack: StackCli) -> None:
    stack.ok("up", "--no-wait", *SERVERS)
    refused = stack.run("up", *SERVERS)
    wait_for("ready", lambda: bool(json.loads(stack.ok("status", "--json"))["ready"]))
    if refused.returncode:  # the machine may have been so fast that it was up already
        assert "ulak dev down" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_port_that_was_taken_meanwhile_is_replaced(stack: StackCli) -> None:
    stack.ok("up", *SERVERS)
    ports = json.loads(stack.paths.ports.read_text())
    stack.ok("down")
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", ports["valkey"]))
        squatter.listen()
        stack.ok("up", *SERVERS)
        now = json.loads(stack.paths.ports.read_text())
    assert now.pop("valkey") != ports.pop("valkey")
    assert now == ports


def test_an_external_server_is_used_and_not_started(stack: StackCli, make_stack: Callable[[str], StackCli]) -> None:
    stack.ok("up", *SERVERS)
    brought = {setting: stack.env()[setting] for name, setting in SERVER_SETTINGS.items() if name != "valkey"}
    other = make_stack("other")
    other.ok("up", *SERVERS, **brought)
    assert other.processes().keys() == {"valkey"}
    assert {name: other.env()[name] for name in brought} == brought


def test_commands_on_a_stack_that_is_down(stack: StackCli) -> None:
    assert json.loads(stack.ok("status", "--json")) == {"ready": False, "processes": []}
    assert "The stack is down" in stack.ok("status")
    assert "down already" in stack.ok("down")
    for arguments in (["env"], ["logs"], ["logs", "kafka"]):
        refused = stack.run(*arguments)
        assert refused.returncode == 1
        assert "ulak dev up" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_logs_are_shown_and_followed_to_the_end(stack: StackCli) -> None:
    stack.ok("up", *SERVERS)
    assert "ready to accept connections" in stack.ok("logs", "postgres", "-n", "20")
    assert "kafka      | " in stack.ok("logs", "-n", "1")
    follower = subprocess.Popen(
        stack.command("logs", "postgres", "-f", "-n", "0"),
        env=stack.settings(),
        cwd=project_root(),
        stdout=subprocess.PIPE,
        text=True,
    )
    following = psutil.Process(follower.pid)
    wait_for("the log is open", lambda: any(file.path.endswith("postgres.log") for file in following.open_files()))
    stack.ok("down")
    said, _ = follower.communicate(timeout=30)
    assert "database system is shut down" in said


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("ULAK_JAVA", "no-such-java", "ULAK_JAVA=no-such-java is not a program"),
        ("ULAK_JAVA", "/bin/false", "Cannot format Kafka's data"),
        ("ULAK_CACHE_DIR", "/dev/null/cache", "ULAK_CACHE_DIR"),
        ("ULAK_STATE_DIR", "/dev/null/state", "ULAK_STATE_DIR"),
    ],
)
def test_a_missing_piece_is_one_sentence_and_nothing_stays(
    stack: StackCli, setting: str, value: str, sentence: str
) -> None:
    began = time.monotonic()
    refused = stack.run("up", *SERVERS, **{setting: value})
    assert refused.returncode == 1
    assert sentence in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert time.monotonic() - began < 30
    assert json.loads(stack.ok("status", "--json")) == {"ready": False, "processes": []}
