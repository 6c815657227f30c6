"""Links that take a consent back: whole or refused, and about nobody who could be read out of them."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.address import target_key
from shared.core.sealing import KeyRing
from shared.core.unsubscribe import InvalidLinkError, Refusal, link, link_token, parse_link_token
from shared.wire.channel import DEFAULT_CHANNELS

RING = KeyRing(active="k1", keys={"k1": bytes(range(32))}, lookup_key=bytes(range(32, 64)))
OTHER = KeyRing(active="k1", keys={"k1": bytes(range(32))}, lookup_key=bytes(range(1, 33)))
REFUSAL = Refusal(target_key(RING, "EMAIL", "ayse@example.com"), "EMAIL", "NOVEMBER_SALE")


@given(
    st.binary(min_size=32, max_size=32),
    st.sampled_from(DEFAULT_CHANNELS.names),
    st.text(st.characters(codec="utf-8"), max_size=64),
)
def test_round_trip(subject: bytes, channel: str, type_name: str) -> None:
    refusal = Refusal(subject, channel, type_name)
    if len(link_token(RING, refusal)) <= 400:
        assert parse_link_token(RING, link_token(RING, refusal)) == refusal


def test_the_longest_names_fit() -> None:
    assert len(link_token(RING, Refusal(bytes(32), "C" * 16, "T" * 64))) < 200


def test_it_is_the_same_at_every_sending_and_safe_in_a_url() -> None:
    token = link_token(RING, REFUSAL)
    assert token == link_token(RING, REFUSAL)
    assert token.replace("-", "").replace("_", "").isalnum()
    assert link("https://me.shop.example/", RING, REFUSAL) == f"https://me.shop.example/u/{token}"


def test_a_rotated_ring_still_knows_it() -> None:
    rotated = KeyRing(active="k2", keys={"k2": bytes(32)}, lookup_key=RING.lookup_key, lost=frozenset({"k1"}))
    assert parse_link_token(rotated, link_token(RING, REFUSAL)) == REFUSAL


def test_no_address_can_be_read_out_of_it() -> None:
    data = base64.urlsafe_b64decode(link_token(RING, REFUSAL) + "==")
    assert b"ayse" not in data
    assert b"example" not in data


def test_every_change_of_a_character_is_noticed() -> None:
    token = link_token(RING, REFUSAL)
    for place in range(len(token) - 1):  # the last one has bits that say nothing
        for other in "AZ_":
            if other != token[place]:
                with pytest.raises(InvalidLinkError):
                    parse_link_token(RING, token[:place] + other + token[place + 1 :])


@pytest.mark.parametrize("text", ["", "a", "AQ", "ş", "x" * 500, "../../etc", "%00", "AQAF" * 20])
def test_other_texts_are_no_links(text: str) -> None:
    with pytest.raises(InvalidLinkError):
        parse_link_token(RING, text)


def test_a_link_of_another_installation_is_none_of_ours() -> None:
    with pytest.raises(InvalidLinkError):
        parse_link_token(RING, link_token(OTHER, REFUSAL))
