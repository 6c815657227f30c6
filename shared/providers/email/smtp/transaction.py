"""The envelope of a mail as commands, and what the replies to them mean. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shared.core.outcome import Outcome
from shared.providers.email.mime import Mail
from shared.providers.email.smtp.classify import Phase, classify, lost
from shared.providers.email.smtp.dialogue import Reply

GOODBYE: Final = 421
_START_INPUT: Final = 354
_TAKEN: Final = frozenset({250, 251})


def envelope(mail: Mail, *, announces_size: bool) -> list[bytes]:
    """MAIL, RCPT for each recipient, DATA."""
    size = b" SIZE=%d" % len(mail.content) if announces_size else b""
    utf8 = b" SMTPUTF8" if mail.needs_smtputf8 else b""
    return [
        b"MAIL FROM:<%b>%b%b\r\n" % (mail.sender.encode(), size, utf8),
        *[b"RCPT TO:<%b>\r\n" % recipient.encode() for recipient in mail.recipients],
        b"DATA\r\n",
    ]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an envelope was answered, as far as it was.

    refusals: of recipients, by their place. rest: the mail ends here, and this is the outcome of everybody else; None
    while that is open. go: the content may follow. wants_content: the server waits for it, whether it may follow or
    not. over: the connection is of no more use. stale: and nothing of this mail was taken before it ended.
    """

    refusals: Mapping[int, Outcome]
    rest: Outcome | None = None
    go: bool = False
    wants_content: bool = False
    over: bool = False
    stale: bool = False

    def outcomes(self, recipients: int, others: Outcome) -> list[Outcome]:
        """One for each recipient, in order."""
        return [self.refusals.get(place, others) for place in range(recipients)]


def verdict(recipients: int, replies: Sequence[Reply], why: str) -> Verdict:
    """Judge the replies to `envelope`'s commands; why: how the dialogue ended before they were complete, or ''."""
    refusals: dict[int, Outcome] = {}
    rest: Outcome | None = None
    wants_content = False
    for place, reply in enumerate(replies):
        phase = _phase(place, recipients)
        if reply.code == GOODBYE:
            rest = rest or classify(phase, reply.code, reply.text)
            return Verdict(refusals, rest, over=True, stale=phase is Phase.MAIL)
        if phase is Phase.DATA:
            wants_content = reply.code == _START_INPUT
            if not wants_content:
                rest = rest or classify(phase, reply.code, reply.text)
        elif reply.code in _TAKEN or rest is not None:
            continue
        elif phase is Phase.MAIL:
            rest = classify(phase, reply.code, reply.text)
        else:
            refusals[place - 1] = classify(phase, reply.code, reply.text)
            if len(refusals) == recipients:
                rest = refusals[place - 1]
    if why and len(replies) < recipients + 2:
        rest = rest or lost(_phase(len(replies), recipients), why)
        return Verdict(refusals, rest, over=True, stale=not replies)
    return Verdict(refusals, rest, go=wants_content and rest is None, wants_content=wants_content)


def _phase(place: int, recipients: int) -> Phase:
    """Of the command at this place of an envelope."""
    if place == 0:
        return Phase.MAIL
    return Phase.RCPT if place <= recipients else Phase.DATA
