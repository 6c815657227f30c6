"""The files of one mail, read before the relay is spoken to."""

import time
from collections.abc import Sequence

from shared.core.outcome import FileUnread, Outcome
from shared.core.ports import Attachment
from shared.core.storage import InvalidRefError, MissingFileError, StorageError, TooLargeError
from shared.providers.deadline import bounded


async def read_files(attachments: Sequence[Attachment], deadline: float) -> Sequence[bytes] | Outcome:
    """Each file's bytes in order, or what its lack means for the mail; by `deadline` of `time.monotonic()`.

    One after the other, so that files which are too large together are found out before all of them are in memory.
    What is missing, too large or no reference is permanent; storage that cannot be asked is asked again later, as
    nothing was sent.
    """
    files: list[bytes] = []
    for number, attachment in enumerate(attachments, start=1):
        which = f"attachment {number} of {len(attachments)}"
        left_sec = deadline - time.monotonic()
        try:
            files.append(await bounded(attachment.read(left_sec), left_sec))
        except MissingFileError:
            return FileUnread(f"{which} is missing: a file must stay until its mail is sent", permanent=True)
        except (TooLargeError, InvalidRefError) as error:
            return FileUnread(f"{which}: {error}", permanent=True)
        except StorageError as error:
            return FileUnread(f"{which}: {error}", permanent=False)
        except TimeoutError:
            return FileUnread(f"{which} was not read in time", permanent=False)
    return files
