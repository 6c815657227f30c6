"""The signature of Twilio's callbacks (Twilio documentation, 'Webhooks security: validating signatures'). Pure."""

import base64
import hashlib
import hmac
from collections.abc import Mapping


def signature(auth_token: str, url: str, params: Mapping[str, str]) -> str:
    """`X-Twilio-Signature`: base64 of HMAC-SHA1 over the full URL and the form's names and values, sorted by name."""
    signed = url + "".join(name + params[name] for name in sorted(params))
    return base64.b64encode(hmac.new(auth_token.encode(), signed.encode(), hashlib.sha1).digest()).decode()
