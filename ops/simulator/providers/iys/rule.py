"""What İYS refuses in one consent. Pure.

Source: dev.iys.org.tr, "İzin Yönetimi" (İzin Doğrulama Kuralları, Tekil İzin Ekleme). H111, H113, H114 and H155 are
shown there; codes that begin with S are the simulator's own, for rules that are told without their code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

OLDEST: Final = "2015-05-01 00:00:00"
ZONE: Final = timedelta(hours=3)
TYPES: Final = frozenset({"ARAMA", "MESAJ", "EPOSTA"})
STATUSES: Final = frozenset({"ONAY", "RET"})
KINDS: Final = frozenset({"BIREYSEL", "TACIR"})
SOURCES: Final = frozenset(
    f"HS_{name}"
    for name in (
        *("FIZIKSEL_ORTAM", "ISLAK_IMZA", "WEB", "CAGRI_MERKEZI", "SOSYAL_MEDYA", "EPOSTA", "MESAJ", "MOBIL"),
        *("EORTAM", "ETKINLIK", "2015", "ATM", "KARAR"),
    )
)
_NUMBER: Final = re.compile(r"^\+90[25]\d{9}$")
_EMAIL: Final = re.compile(r"^[^@\s]+@[^@\s]+\.[^@\s]+$")
_DATE: Final = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class Problem:
    location: str
    code: str
    message: str

    def body(self) -> dict[str, object]:
        return {"location": [self.location], "code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class Consent:
    """One permission as the registry keeps it; dates are texts of its own zone, which sort as they are."""

    type: str
    recipient: str
    kind: str
    status: str
    date: str
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.recipient, self.kind, self.type

    def body(self) -> dict[str, object]:
        return {
            "type": self.type,
            "source": self.source,
            "recipient": self.recipient,
            "recipientType": self.kind,
            "status": self.status,
            "consentDate": self.date,
        }


def read(form: object, now: datetime) -> Consent | list[Problem]:
    """A consent that is well-formed, or every field that is not."""
    fields: Mapping[str, object] = form if isinstance(form, Mapping) else {}
    texts = {name: value if isinstance(value := fields.get(name), str) else "" for name in _FIELDS}
    problems = [problem for name, code in _FIELDS.items() if (problem := _missing(name, code, texts[name]))]
    if texts["recipient"] and texts["type"] in TYPES:
        form_of = _EMAIL if texts["type"] == "EPOSTA" else _NUMBER
        if not form_of.match(texts["recipient"]):
            problems.append(Problem("recipient", "S114", "Alıcı (recipient) geçersiz."))
    if texts["consentDate"]:
        problems += _date_problems(texts["consentDate"], texts["source"], now)
    if problems:
        return problems
    return Consent(
        texts["type"],
        texts["recipient"],
        texts["recipientType"],
        texts["status"],
        texts["consentDate"],
        texts["source"],
    )


def against(consent: Consent, known: Consent | None) -> Problem | None:
    """What the registry's own line on the same recipient, kind and type keeps from being written."""
    if known is None:
        if consent.status == "RET":
            return Problem("status", "S201", "İlk defa kaydedilen bir alıcı için izin durumu RET olamaz.")
        return None
    if consent.date <= known.date:
        return Problem("consentDate", "S202", "İzin tarihi var olan iznin tarihinden ileride olmalıdır.")
    if consent.status == known.status:
        return Problem("status", "S203", "İzin durumu zaten bu şekilde kayıtlı.")
    return None


_FIELDS: Final = {
    "type": "H111",
    "source": "H113",
    "recipient": "H114",
    "recipientType": "S115",
    "status": "S112",
    "consentDate": "S116",
}
_KNOWN: Final = {"type": TYPES, "source": SOURCES, "recipientType": KINDS, "status": STATUSES}


def _missing(name: str, code: str, text: str) -> Problem | None:
    if text and (name not in _KNOWN or text in _KNOWN[name]):
        return None
    return Problem(name, code, f"{name} bulunamadı.")


def _date_problems(text: str, source: str, now: datetime) -> list[Problem]:
    try:
        datetime.strptime(text, _DATE)  # noqa: DTZ007  its zone is the registry's, and texts are compared
    except ValueError:
        return [Problem("consentDate", "S116", "İzin tarihi (consentDate) geçersiz.")]
    if text < OLDEST:
        return [
            Problem(
                "consentDate",
                "H155",
                f"İzin tarihi (consentDate) için {OLDEST} tarihinden önceki tarihler girilmemelidir.",
            )
        ]
    if source == "HS_2015" and text != OLDEST:
        return [Problem("consentDate", "S117", f"HS_2015 için yalnızca {OLDEST} kabul edilir.")]
    if text > (now + ZONE).strftime(_DATE):
        return [Problem("consentDate", "S118", "İzin tarihi ileri bir tarih olamaz.")]
    return []
