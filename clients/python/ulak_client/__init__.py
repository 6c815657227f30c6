"""Tell Ulak what happened, in your own transaction."""

from ulak_client.outbox import Event, enqueue_event, enqueue_event_sync

__all__ = ["Event", "enqueue_event", "enqueue_event_sync"]
