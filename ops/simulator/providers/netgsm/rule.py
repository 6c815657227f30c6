"""What Netgsm's REST API refuses. Pure.

Sources: Netgsm, 'SMS API: REST v2' (netgsm.com.tr/dokuman) and the table of codes in its own clients
(netgsm-sms-python, `api_exception.py`); refusals come with HTTP 406.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ops.simulator.exchange import Reply, json_reply

MAX_PARTS: Final = 6
_NUMBER: Final = re.compile(r"5[0-9]{9}")
_IYS_FILTERS: Final = frozenset({"0", "11", "12"})


@dataclass(frozen=True, slots=True)
class Refusal:
    code: str
    description: str
    status: int = 406

    def reply(self) -> Reply:
        return json_reply(self.status, {"code": self.code, "description": self.description})


CREDENTIALS: Final = Refusal("30", "Geçersiz kullanıcı adı, şifre veya kullanıcınızın API erişim izni yok.")
HEADER: Final = Refusal("40", "Mesaj başlığınız sistemde tanımlı değil.")
PARAMETER: Final = Refusal("70", "Hatalı sorgulama. Parametrelerden birisi hatalı veya zorunlu alan eksik.")
TEXT: Final = Refusal("20", "Mesaj metninde problem var veya azami karakter sayısı aşıldı.")
SYSTEM: Final = Refusal("100", "Sistem hatası.", 500)

MAGIC_TO: Final[Mapping[str, Refusal]] = {
    "5000000020": TEXT,
    "5000000050": Refusal("50", "Abone hesabınız ile İYS kontrollü gönderimler yapılamamaktadır."),
    "5000000051": Refusal("51", "Aboneliğinize tanımlı İYS Marka bilgisi bulunamadı."),
    "5000000080": Refusal("80", "Gönderim sınır aşımı."),
    "5000000085": Refusal("85", "Mükerrer Gönderim sınır aşımı."),
    "5000000100": SYSTEM,
}
"""Numbers that always get the same code: 5000000 and the code."""


def first_message(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The only message of a request; empty where there is none, or not one."""
    messages = body.get("messages")
    if not isinstance(messages, list) or len(messages) != 1 or not isinstance(messages[0], dict):
        return {}
    return messages[0]


def refusal(body: Mapping[str, Any], header: str, parts: int | None) -> Refusal | None:
    """The first reason to refuse a request, or None. header: the account's only one; parts: None for a text that its
    encoding does not hold.
    """
    message = first_message(body)
    number, text = message.get("no"), message.get("msg")
    if not isinstance(number, str) or not _NUMBER.fullmatch(number) or not isinstance(text, str) or not text:
        return PARAMETER
    if body.get("iysfilter", "0") not in _IYS_FILTERS or body.get("encoding", "") not in {"", "TR"}:
        return PARAMETER
    if body.get("msgheader") != header:
        return HEADER
    if parts is None or parts > MAX_PARTS:
        return TEXT
    return MAGIC_TO.get(number)
