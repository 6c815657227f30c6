"""From deliveries to the mail that goes out: grouped, files read, composed. One way for every provider of e-mail."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from shared.core.outcome import Outcome, Permanent, ProviderDown
from shared.core.ports import Prepared, SenderProfile
from shared.providers.email.files import read_files
from shared.providers.email.header import InvalidMailError
from shared.providers.email.mime import Mail, build
from shared.providers.email.signature import InvalidKeyError

FILES_SHARE: Final = 0.5
"""Of a send's time, what reading its files may take; the rest is the provider's."""

_LARGE_BYTES: Final = 262_144
"""From this size of files on, a mail is made in a thread: encoding and signing 10 MB takes 0.3 s."""


@dataclass(slots=True)  # not frozen, though nobody changes it: as Mail
class Letter:
    """One mail on its way, with what it was made of."""

    messages: Sequence[Prepared]
    files: Sequence[bytes]
    mail: Mail


class Composer:
    """Makes the mails of one account. signed: with the sender's DKIM key, where it has one."""

    def __init__(self, profile: SenderProfile, clock: Callable[[], datetime], *, signed: bool = True) -> None:
        self._profile = profile
        self._clock = clock
        self._signed = signed
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="large-mail")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def letter(
        self, messages: Sequence[Prepared], started: float, deadline_sec: float, *, smtputf8: bool = True
    ) -> Letter | Outcome:
        """The one mail of messages that share an envelope, or what keeps all of them from going out.

        started: of `time.monotonic()`, when the send of deadline_sec began.
        """
        files = await read_attachments(messages, started, deadline_sec)
        if not isinstance(files, Sequence):
            return files
        try:
            return Letter(messages, files, await self.mail(messages, files, smtputf8=smtputf8))
        except InvalidKeyError as error:
            return ProviderDown(str(error))
        except (InvalidMailError, UnicodeEncodeError) as error:
            return not_a_mail(error)

    async def mail(self, messages: Sequence[Prepared], files: Sequence[bytes], *, smtputf8: bool = True) -> Mail:
        """As `shared.providers.email.mime.build`."""
        work = partial(
            build,
            messages,
            self._profile,
            now=self._clock(),
            files=files,
            smtputf8=smtputf8,
            signed=self._signed,
        )
        if sum(map(len, files)) < _LARGE_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


async def read_attachments(
    messages: Sequence[Prepared], started: float, deadline_sec: float
) -> Sequence[bytes] | Outcome:
    """The files of messages that share an envelope, as `read_files`, within their share of the send's time."""
    envelope = messages[0].envelope
    return () if envelope is None else await read_files(envelope.attachments, started + FILES_SHARE * deadline_sec)


def not_a_mail(error: InvalidMailError | UnicodeEncodeError) -> Permanent:
    """What a message is that no mail can be made of."""
    if isinstance(error, InvalidMailError):
        return Permanent(f"not a mail: {error}")
    return Permanent("not a mail: its text has half of a surrogate pair")


def grouped(batch: Sequence[Prepared], at_most: int | None = None) -> list[Sequence[Prepared]]:
    """A batch as mails: neighbours that share an envelope are one, of at most so many recipients."""
    groups: list[list[Prepared]] = []
    for message in batch:
        if (
            groups
            and message.envelope is not None
            and groups[-1][0].envelope is message.envelope
            and len(groups[-1]) != at_most
        ):
            groups[-1].append(message)
        else:
            groups.append([message])
    return [*groups]
