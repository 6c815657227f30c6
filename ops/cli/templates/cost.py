"""What an SMS template costs, in a person's words."""

from shared.content.sms import SmsReport


def cost(sms: SmsReport) -> str:
    """Like `one segment (UCS2, 19 left; at worst 2, UCS2, 60 left)`."""
    parts = "one segment" if sms.sample.count == 1 else f"{sms.sample.count} segments"
    worst = "" if sms.worst is None else f"; at worst {sms.worst.count}, {sms.worst.encoding}, {sms.worst_left} left"
    return f"{parts} ({sms.sample.encoding}, {sms.left} left{worst})"
