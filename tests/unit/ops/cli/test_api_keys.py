"""Arguments of `ulak api-keys`: what they mean, and what is said of wrong ones."""

import pytest

from ops.cli.api_keys import parse_scopes
from ops.cli.errors import CommandError
from ops.cli.ingest_client import refusal
from ops.cli.send import merged_params
from shared.core.sealing import KeyRing
from shared.postgres.api_key import InvalidEntryError, Kind, Scope, allow_list, new_secret

RING = KeyRing(active="k1", keys={"k1": bytes(32)}, lookup_key=bytes(range(32)))


def test_secrets_are_of_one_form_and_never_shown_by_repr() -> None:
    first, second = new_secret(Kind.TEAM), new_secret(Kind.TEAM)
    assert first.text.startswith("ulak_team_")
    assert len(first.text) == 53
    assert first.text != second.text
    assert len(first.hash) == 32
    assert first.text not in repr(first)


@pytest.mark.parametrize(("text", "scopes"), [("otp,notifications", ["notifications", "otp"]), (" all ", ["all"])])
def test_scopes(text: str, scopes: list[str]) -> None:
    assert parse_scopes(text) == tuple(map(Scope, scopes))


@pytest.mark.parametrize("text", ["", "root", "otp,root"])
def test_wrong_scopes_are_refused(text: str) -> None:
    with pytest.raises(CommandError, match="notifications"):
        parse_scopes(text)


def test_allow_list_takes_every_way_to_write_an_address() -> None:
    assert allow_list(["0532 123 45 67", "A@Example.com"], RING) == allow_list(["+905321234567", "a@example.com"], RING)
    with pytest.raises(InvalidEntryError) as caught:
        allow_list(["a@example.com", "12345"], RING)
    assert caught.value.position == 1
    assert "12345 " not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "pairs", "merged"),
    [
        (None, [], {}),
        ('{"a": 1}', ["b=2"], {"a": 1, "b": "2"}),
        ('{"a": 1}', ["a=x=y"], {"a": "x=y"}),
        (None, ["a="], {"a": ""}),
    ],
)
def test_params(text: str | None, pairs: list[str], merged: dict[str, object]) -> None:
    assert merged_params(text, pairs) == merged


@pytest.mark.parametrize(("text", "pairs"), [("[]", []), ("{", []), (None, ["a"]), (None, ["=b"])])
def test_wrong_params_are_refused(text: str | None, pairs: list[str]) -> None:
    with pytest.raises(CommandError, match="--param"):
        merged_params(text, pairs)


def test_a_problem_becomes_its_sentence_and_its_fields() -> None:
    problem = {
        "title": "T",
        "code": "c",
        "detail": "Do this.",
        "errors": [{"path": "a", "detail": "wrong"}, {"path": "b"}],
    }
    assert refusal(422, problem) == "T (c): Do this.\n  a: wrong"
    assert refusal(500, {}) == "Refused (500):"
