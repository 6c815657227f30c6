"""`ulak dev up --model-a`: plain SQL in, a mail out, and nothing but PostgreSQL, the simulator and the relay."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import httpx
import psycopg

from ops.demo.shop_database import shop_dsn
from ops.dev.paths import project_root
from tests.integration.dev.conftest import StackCli, all_gone, wait_for, without_servers

ENQUEUE = """
SELECT ulak.enqueue_email(
    ARRAY['Ayşe <ayse@example.com>'], 'ORDER_SHIPPED',
    '{"orderNo": "98213", "carrier": "Kargo A", "trackingUrl": "https://kargo.example/takip/98213"}')
"""


def why(email_id: str, environment: Mapping[str, str]) -> str:
    """What `ulak why` tells whoever has evaluated `ulak dev env`."""
    command = [sys.executable, "-m", "ops.cli", "why", email_id]
    done = subprocess.run(
        command, env=environment, cwd=project_root(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


def test_an_e_mail_goes_from_plain_sql_to_the_mail_server(stack: StackCli) -> None:
    stack.ok("up", "--model-a")
    processes = stack.processes()
    assert set(processes) == {"postgres", "simulator", "relay"}
    assert {process["state"] for process in processes.values()} == {"ready"}

    settings = {name: value.strip("'") for name, value in stack.env().items()}
    assert "ULAK_KAFKA_BOOTSTRAP_SERVERS" not in settings
    assert "ULAK_REDIS_URL" not in settings
    own = settings["ULAK_POSTGRES_DSN"]
    ids: dict[str, Any] = {}
    for dsn in (own, shop_dsn(own)):
        with psycopg.connect(dsn) as connection:
            [[ids[dsn]]] = connection.execute(ENQUEUE.encode()).fetchall()

    def mails() -> list[dict[str, Any]]:
        reply = httpx.get(
            f"{settings['ULAK_SIMULATOR_URL']}/_sim/messages", params={"provider": "smtp"}, trust_env=False
        )
        return list(reply.json()["messages"])

    wait_for("both mails", lambda: len(mails()) == 2)
    assert [mail["content"]["rcptTo"] for mail in mails()] == [["ayse@example.com"]] * 2
    assert all("98213" in mail["content"]["subject"] for mail in mails())
    for dsn in (own, shop_dsn(own)):
        with psycopg.connect(dsn) as connection:
            rows = connection.execute("SELECT model, status FROM ulak.email_messages").fetchall()
        assert rows == [("A", "SENT")]
        story = why(str(ids[dsn]), without_servers(dict(os.environ)) | settings)
        assert "It is sent to everybody, after 1 attempt." in story

    everything = stack.everything()
    stack.ok("down")
    wait_for("everything gone", lambda: all_gone(everything))


def test_it_is_one_or_the_other(stack: StackCli) -> None:
    refused = stack.run("up", "--model-a", "--only", "servers")
    assert refused.returncode == 2
    assert "--only" in refused.stderr
