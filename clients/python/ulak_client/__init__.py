"""Tell Ulak what happened, in your own transaction.

`ulak_client.sealing` and `ulak_client.http` need the extras of those names; nothing here imports them.
"""

from ulak_client.connection import AutocommitWarning
from ulak_client.email import Attachment, Email
from ulak_client.event import Event
from ulak_client.outbox import enqueue_email, enqueue_email_async, enqueue_event, enqueue_event_async

__all__ = [
    "Attachment",
    "AutocommitWarning",
    "Email",
    "Event",
    "enqueue_email",
    "enqueue_email_async",
    "enqueue_event",
    "enqueue_event_async",
]
__version__ = "0.2.0"
