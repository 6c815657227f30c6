"""Where a push to APNs carries the sender's reference."""

from ops.simulator.exchange import Request


def reference(request: Request) -> str | None:
    """The `apns-id`, which Ulak sets to its own id so that a repeated send carries the same one."""
    return request.header("apns-id")
