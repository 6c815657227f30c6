"""What is said: parameters opened, template rendered, result sealed. One bad row is a value, never an exception."""

from collections.abc import Mapping
from typing import Any

import orjson

from services.router.notification import NewContent, Notification
from services.router.plan import Unwritable, Written
from services.router.template import TemplateChoice
from shared.content.problem import RenderError
from shared.content.render import Renderer
from shared.core.lifecycle import Reason
from shared.core.sealing import LostKeyError, Purpose, TamperedError, UnknownKeyError, open_sealed, seal
from shared.decision.chain import Decision
from shared.decision.verdict import Go
from shared.runtime.keyring import RingSource


class Writer:
    """Renders and seals content with the ring of the moment."""

    def __init__(self, ring_source: RingSource, renderer: Renderer) -> None:
        self._rings = ring_source
        self._renderer = renderer

    def write(self, notification: Notification, decision: Decision, templates: TemplateChoice) -> dict[str, Written]:
        """Content of every channel that goes, or why it cannot be had.

        Raises UnknownKeyError when the parameters are sealed under a key that the ring does not have even after
        another look: the notification must wait, nothing about it is wrong.
        """
        going = [channel.channel for channel in decision.channels if isinstance(channel.verdict, Go)]
        if not going or decision.defer_until is not None:
            return {}
        params = self._params(notification)
        if isinstance(params, Unwritable):
            return dict.fromkeys(going, params)
        return {channel: self._written(notification, channel, params, templates) for channel in going}

    def _written(
        self, notification: Notification, channel: str, params: Mapping[str, Any], templates: TemplateChoice
    ) -> Written:
        template = templates.by_channel(notification.type, notification.locale).get(channel)
        if template is None:  # the chain said Go, so it was there: the catalogue must be of the same reading
            return Unwritable(Reason.NO_TEMPLATE, f"no template of {notification.type} for {channel}")
        try:
            content = self._renderer.render(template, params)
        except RenderError as error:
            return Unwritable(Reason.RENDER, f"{channel} {template.locale} v{template.version}: {error}")
        row = notification.id.bytes + channel.encode()
        sealed = seal(self._rings.ring, Purpose.CONTENT, row, orjson.dumps(content))
        return NewContent(channel, sealed, template.locale, template.version)

    def _params(self, notification: Notification) -> Mapping[str, Any] | Unwritable:
        if notification.params is not None:
            return notification.params
        if notification.params_sealed is None:
            return {}
        try:
            return self._opened(notification.id.bytes, notification.params_sealed)
        except (LostKeyError, TamperedError) as error:
            return Unwritable(Reason.UNSEALABLE, f"params: {error}")
        except orjson.JSONDecodeError:
            return Unwritable(Reason.UNSEALABLE, "params: what was sealed is not JSON")

    def _opened(self, row: bytes, sealed: bytes) -> Mapping[str, Any]:
        try:
            plain = open_sealed(self._rings.ring, Purpose.PARAMS, row, sealed)
        except UnknownKeyError:
            if not self._rings.refresh():
                raise
            plain = open_sealed(self._rings.ring, Purpose.PARAMS, row, sealed)
        params: Mapping[str, Any] = orjson.loads(plain)
        return params
