"""The pages of unsubscribing: plain HTML in Turkish and English, without script, cookie or anything from elsewhere."""

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Final, Literal

from starlette.responses import Response

Language = Literal["tr", "en"]

_STYLE: Final = (
    "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:4rem auto;padding:0 1rem;color:#222}"
    "button{font:inherit;padding:.6rem 1.2rem;border:0;border-radius:.4rem;background:#222;color:#fff}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_RANGE: Final = re.compile(r"\s*([A-Za-z]{1,8}|\*)(?:-[A-Za-z0-9-]+)?\s*(?:;\s*q=([01](?:\.\d{0,3})?))?\s*")


@dataclass(frozen=True, slots=True)
class Words:
    """What the pages say in one language."""

    ask_title: str
    ask: str
    button: str
    done_title: str
    done: str
    lost_title: str
    lost: str


_WORDS: Final[dict[Language, Words]] = {
    "tr": Words(
        ask_title="Aboneliği sonlandır",
        ask="Bu adrese artık kampanya ve tanıtım iletisi gönderilmesin mi? Sipariş ve güvenlik bildirimleri sürer.",
        button="Aboneliği sonlandır",
        done_title="Aboneliğiniz sonlandırıldı",
        done="Bu adrese artık kampanya ve tanıtım iletisi göndermeyeceğiz. Bu sayfayı kapatabilirsiniz.",
        lost_title="Bağlantı geçersiz",
        lost="Bu bağlantı bize ait değil ya da eksik kopyalanmış. İletideki bağlantıya yeniden tıklayın.",
    ),
    "en": Words(
        ask_title="Unsubscribe",
        ask="Stop sending campaigns and offers to this address? Messages about orders and security go on.",
        button="Unsubscribe",
        done_title="You are unsubscribed",
        done="We will send no more campaigns and offers to this address. You can close this page.",
        lost_title="This link is not valid",
        lost="The link is not one of ours, or was cut short. Please follow the one in the message again.",
    ),
}


def language(accept_language: str) -> Language:
    """Turkish or English, whichever the browser would rather read; English for neither (RFC 9110 section 12.5.4)."""
    best: tuple[float, Language] = (0.0, "en")
    for part in accept_language[:500].split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            continue
        name, weight = found.group(1).lower(), float(found.group(2) or 1)
        if name in {"tr", "en"} and weight > best[0]:
            best = (weight, "tr" if name == "tr" else "en")
    return best[1]


def asking(of: Language) -> Response:
    """The question, whose form posts to the page's own address: nothing of the link is repeated in it."""
    words = _WORDS[of]
    form = (
        '<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click">'
        f'<button type="submit">{words.button}</button></form>'
    )
    return _page(of, 200, words.ask_title, words.ask, form)


def done(of: Language) -> Response:
    return _page(of, 200, _WORDS[of].done_title, _WORDS[of].done)


def lost(of: Language) -> Response:
    return _page(of, 404, _WORDS[of].lost_title, _WORDS[of].lost)


def _page(of: Language, status: int, title: str, text: str, form: str = "") -> Response:
    content = (
        f'<!doctype html><html lang="{of}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">'
        f"<title>{title}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{title}</h1><p>{text}</p>{form}</body></html>"
    )
    headers = {"content-security-policy": _POLICY, "content-language": of, "vary": "Accept-Language"}
    return Response(content, status, headers=headers, media_type="text/html")
