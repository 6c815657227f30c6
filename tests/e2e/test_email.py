"""E-mails on a whole stack: over HTTP in both models, and by SQL, each one mail for all of its recipients."""

from typing import Any

import httpx
import psycopg
import psycopg.types.json
import pytest

from tests.e2e.stack import Stack, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

PARAMETERS = {"orderNo": "1", "carrier": "Kargo A", "trackingUrl": "https://kargo.example/1"}


def mails(stack: Stack, address: str) -> list[list[str]]:
    """To whom each mail went that went to this address."""
    found = [message["content"]["rcptTo"] for message in stack.arrived("smtp") if message["accepted"]]
    return [recipients for recipients in found if address in recipients]


def settled(client: httpx.Client, email_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        body: dict[str, Any] = client.get(f"/internal/v1/emails/{email_id}").raise_for_status().json()
        return body if body["status"] in {"SENT", "FAILED"} else None

    return eventually(look, f"the end of {email_id}")


@pytest.mark.parametrize("model", ["A", "B"])
def test_posted_it_is_one_mail_for_all_recipients(stack: Stack, model: str) -> None:
    first, second = f"ada-{model}@example.com", f"bob-{model}@example.com"
    body = {"to": [first], "bcc": [second], "template": "ORDER_SHIPPED", "parameters": PARAMETERS, "model": model}
    with stack.http("ULAK_INGEST_URL") as client:
        answer = client.post("/internal/v1/emails", json=body)
        assert answer.status_code == 202, answer.text
        email = settled(client, answer.json()["emailId"])

    assert (email["model"], email["status"]) == (model, "SENT")
    assert [each["status"] for each in email["recipients"]] == ["SENT", "SENT"]
    assert [sorted(recipients) for recipients in mails(stack, first)] == [[first, second]]
    told = " ".join(stack.ulak("why", answer.json()["emailId"]).split())
    assert "smtp" in told
    assert first not in told


def test_enqueued_by_sql_its_row_says_what_became_of_it(stack: Stack) -> None:
    address = "cai-sql@example.com"
    with psycopg.connect(stack.settings["ULAK_POSTGRES_DSN"], autocommit=True) as database:
        row = database.execute(
            "SELECT ulak.enqueue_email(recipients => ARRAY[%s], template => 'ORDER_SHIPPED', parameters => %s, "
            "model => 'B')",
            [address, psycopg.types.json.Jsonb(PARAMETERS)],
        ).fetchone()
        assert row is not None

        def sent() -> bool | None:
            found = database.execute("SELECT status FROM ulak.email_messages WHERE id = %s", row).fetchone()
            return True if found == ("SENT",) else None

        eventually(sent, "the row being SENT")
    assert mails(stack, address) == [[address]]
    assert "smtp accepted it" in " ".join(stack.ulak("why", "--email", str(row[0])).split())
