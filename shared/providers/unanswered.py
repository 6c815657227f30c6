"""What a missing reply means for a message, whoever was asked."""

from shared.core.outcome import Ambiguous, Outcome, ProviderDown, Transient
from shared.core.ports import ReplyLostError, TransportError, UnsentError, UntrustedError


def unanswered(error: TransportError) -> Outcome:
    """Its outcome, by the phase that the transport knows it ended in."""
    match error:
        case UntrustedError():
            return ProviderDown(str(error))
        case UnsentError():
            return Transient(str(error), not_processed=True)
        case ReplyLostError():
            return Ambiguous(str(error))
        case _:
            raise error
