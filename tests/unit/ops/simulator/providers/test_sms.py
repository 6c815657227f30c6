"""What the simulated Vonage and Netgsm refuse, and how many parts they count."""

from typing import Any

import pytest

from ops.simulator.providers.netgsm.rule import refusal as netgsm
from ops.simulator.providers.netgsm.segment import parts
from ops.simulator.providers.vonage.rule import refusal as vonage

FORM = {"from": "SHOP", "to": "905321234567", "text": "Merhaba", "ttl": "20000", "client-ref": "r"}
BODY: dict[str, Any] = {"msgheader": "SHOP", "messages": [{"msg": "Merhaba", "no": "5321234567"}], "iysfilter": "0"}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        pytest.param({}, None, id="good"),
        pytest.param({"from": ""}, "2", id="no-sender"),
        pytest.param({"to": "+905321234567"}, "3", id="plus"),
        pytest.param({"type": "emoji"}, "3", id="type"),
        pytest.param({"ttl": "19999"}, "3", id="ttl-too-short"),
        pytest.param({"client-ref": "r" * 101}, "3", id="reference-too-long"),
        pytest.param({"text": "a" * 3201}, "12", id="too-long"),
        pytest.param({"from": "MAGAZAMAGAZA"}, "15", id="12-characters"),
        pytest.param({"to": "12025550199"}, "15", id="name-to-north-america"),
        pytest.param({"to": "12025550199", "from": "12025550123"}, None, id="number-to-north-america"),
        pytest.param({"to": "905000000033"}, "33", id="magic"),
    ],
)
def test_vonage(change: dict[str, str], status: str | None) -> None:
    refused = vonage(FORM | change)
    assert (refused and refused[0]) == status


@pytest.mark.parametrize(
    ("change", "count", "code"),
    [
        pytest.param({}, 1, None, id="good"),
        pytest.param({"messages": []}, 1, "70", id="no-message"),
        pytest.param({"messages": [{"msg": "x", "no": "905321234567"}]}, 1, "70", id="country-code"),
        pytest.param({"iysfilter": "1"}, 1, "70", id="filter"),
        pytest.param({"encoding": "UTF-8"}, 1, "70", id="encoding"),
        pytest.param({"msgheader": "OTHER"}, 1, "40", id="header"),
        pytest.param({}, None, "20", id="characters"),
        pytest.param({}, 7, "20", id="too-long"),
        pytest.param({"messages": [{"msg": "x", "no": "5000000085"}]}, 1, "85", id="magic"),
    ],
)
def test_netgsm(change: dict[str, Any], count: int | None, code: str | None) -> None:
    refused = netgsm(BODY | change, "SHOP", count)
    assert (refused and refused.code) == code


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        pytest.param("a" * 160, "", 1, id="160"),
        pytest.param("a" * 161, "", 2, id="161"),
        pytest.param("ş", "", None, id="turkish-without-its-table"),
        pytest.param("a" * 160, "TR", 1, id="the-table-is-used-only-where-it-is-needed"),
        pytest.param("a" * 153 + "ş", "TR", 1, id="155"),
        pytest.param("a" * 154 + "ş", "TR", 2, id="156"),
        pytest.param("a" * 149 + "ş" * 74, "TR", 2, id="149-and-148"),
        pytest.param("a" * 148 + "ş" + "a" * 148, "TR", 3, id="no-letter-is-split-S1"),
        pytest.param("😀", "TR", None, id="emoji"),
    ],
)
def test_netgsm_s_parts(text: str, encoding: str, expected: int | None) -> None:
    assert parts(text, encoding) == expected
