"""What can go wrong here, said so that a person knows what to do next."""

from collections.abc import Sequence

from shared.runtime.error import OperatorError


class MessagingError(OperatorError):
    """Base of this package's errors.

    MessagingError
    +-- UnsafeOptionError      an option that would lose or repeat messages; refused at construction
    +-- MissingTopicError      a topic that is needed does not exist
    +-- PublishError           the broker did not acknowledge all records of one publish
    +-- ConsumerFailedError    a consumer ended by an error it cannot survive
    +-- TopicAdminError        the broker refused to create or describe topics
    +-- ReadError              what a topic holds could not be read
    """


class UnsafeOptionError(MessagingError, ValueError):
    """A client option that breaks the promises of semantics.md section 1."""


class MissingTopicError(MessagingError):
    """Topics that are consumed but do not exist."""

    def __init__(self, topics: Sequence[str]) -> None:
        super().__init__(f"missing topics: {', '.join(topics)}. Create them with `ulak topics apply`.")
        self.topics = tuple(topics)


class PublishError(MessagingError):
    """Not every record was acknowledged; those not in `failed` were.

    failed holds (index of the record, reason), in index order. Publishing the failed ones again is right, except those
    in `permanent`, which no attempt can get through (too large, invalid). With `fatal` the producer's handle was given
    up and the next publish uses a fresh one (K11), so the failed records may also have been written: publish them
    again from their rows.
    """

    def __init__(
        self, failed: Sequence[tuple[int, str]], *, permanent: frozenset[int] = frozenset(), fatal: bool = False
    ) -> None:
        self.failed = tuple(sorted(failed))
        self.permanent = permanent
        self.fatal = fatal
        reasons = sorted({reason for _, reason in self.failed})
        super().__init__(f"{len(self.failed)} records were not acknowledged: {'; '.join(reasons[:3])}")


class ConsumerFailedError(MessagingError):
    """A fatal client error: restart the process. Nothing was committed past unfinished work."""


class TopicAdminError(MessagingError):
    """The broker refused or could not answer an administration request."""


class ReadError(MessagingError):
    """The broker refused or could not answer a look into a topic."""
