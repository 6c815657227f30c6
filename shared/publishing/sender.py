"""Who mails are from, checked: by files and by the administration API alike. Pure."""

from typing import Final

from shared.core.address import InvalidAddressError, Mailbox, parse_mailbox
from shared.core.ports import DkimKey, SenderProfile
from shared.providers.email.signature import InvalidKeyError, load_key

LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
SELECTOR: Final = rf"^{LABEL}(?:\.{LABEL})*$"
MAX_ADDRESS: Final = 320
MAX_KEY_BYTES: Final = 16_384
_LONGEST_NAME: Final = 128


class InvalidSenderError(ValueError):
    """What is wrong with one field of a sender; `place` is the field, with dots. Holds nothing of a key."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(message)
        self.place = place


def sender_profile(sender: str, reply_to: str | None, return_path: str | None, dkim: DkimKey | None) -> SenderProfile:
    """The checked profile; InvalidSenderError for `from`, `replyTo` or `returnPath`. dkim as of `dkim_key`."""
    mailbox = _readable("from", sender)
    if len(mailbox.name) > _LONGEST_NAME:
        raise InvalidSenderError("from", f"the name is longer than {_LONGEST_NAME} characters: shorten it")
    return SenderProfile(
        from_address=mailbox.address.text,
        from_name=mailbox.name,
        reply_to=None if reply_to is None else str(_readable("replyTo", reply_to)),
        return_path=None if return_path is None else _return_path(return_path),
        dkim=dkim,
    )


def dkim_domain(text: str) -> str:
    """The domain that signs, as it stands in signatures; InvalidSenderError for `dkim.domain`."""
    try:
        return parse_mailbox(f"postmaster@{text}").address.text.partition("@")[2]
    except InvalidAddressError:
        raise InvalidSenderError("dkim.domain", "not a domain: give one like shop.example") from None


def dkim_key(domain: str, selector: str, pem: bytes, *, place: str) -> DkimKey:
    """A key that can sign. InvalidSenderError for `dkim.domain`, or for `place`, where the key was given."""
    checked = dkim_domain(domain)
    if len(pem) > MAX_KEY_BYTES:
        raise InvalidSenderError(place, f"larger than {MAX_KEY_BYTES} bytes: give the private key alone, as PEM")
    try:
        load_key(pem)
    except InvalidKeyError as error:
        raise InvalidSenderError(place, str(error)) from error
    return DkimKey(checked, selector, pem)


def _readable(place: str, text: str) -> Mailbox:
    """A mailbox that every server on the way can read."""
    try:
        mailbox = parse_mailbox(text)
    except InvalidAddressError as error:
        raise InvalidSenderError(place, str(error)) from error
    if mailbox.address.needs_smtputf8:
        raise InvalidSenderError(place, "use ASCII letters before the @: many servers refuse a mail with any others")
    return mailbox


def _return_path(text: str) -> str:
    mailbox = _readable("returnPath", text)
    if mailbox.name:
        raise InvalidSenderError("returnPath", "give the address alone: nobody is shown it")
    return mailbox.address.text
