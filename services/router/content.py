"""What is said: parameters opened, template rendered, result sealed. One bad row is a value, never an exception."""

from collections.abc import Mapping
from typing import Any

import orjson

from services.router.notification import NewContent, Notification, Unwritable, Written
from shared.content.problem import RenderError
from shared.content.render import Renderer
from shared.core.catalogue import NotificationType, Template
from shared.core.consent import user_subject
from shared.core.lifecycle import Reason
from shared.core.sealing import LostKeyError, Purpose, TamperedError, UnknownKeyError, open_sealed, seal
from shared.core.unsubscribe import PARAMETER, Refusal, link
from shared.decision.chain import ChannelDecision, Decision
from shared.decision.verdict import Go
from shared.facts.template import TemplateChoice
from shared.runtime.keyring import RingSource
from shared.wire.channel import INBOX, Category


class Writer:
    """Renders and seals content with the ring of the moment."""

    def __init__(self, ring_source: RingSource, renderer: Renderer, *, public_url: str | None = None) -> None:
        """public_url: where services/me is reached; None: marketing has no link to unsubscribe by."""
        self._rings = ring_source
        self._renderer = renderer
        self._public_url = public_url

    def write(
        self, notification: Notification, entry: NotificationType, decision: Decision, templates: TemplateChoice
    ) -> dict[str, Written]:
        """Content of every channel that goes, or why it cannot be had; entry is the notification's type.

        Raises UnknownKeyError when the parameters are sealed under a key that the ring does not have even after
        another look: the notification must wait, nothing about it is wrong.
        """
        going = [channel for channel in decision.channels if isinstance(channel.verdict, Go)]
        if not going or decision.defer_until is not None:
            return {}
        params = self._params(notification)
        if isinstance(params, Unwritable):
            return dict.fromkeys([channel.channel for channel in going], params)
        chosen = templates.by_channel(notification.type, notification.locale)
        return {
            channel.channel: self._written(
                notification,
                channel.channel,
                self._linked(params, notification, entry, channel),
                chosen.get(channel.channel),
            )
            for channel in going
        }

    def _linked(
        self,
        params: Mapping[str, Any],
        notification: Notification,
        entry: NotificationType,
        channel: ChannelDecision,
    ) -> Mapping[str, Any]:
        """Marketing gets the link by which whoever receives it takes their consent back, whatever the caller sent."""
        if entry.category is not Category.MARKETING or self._public_url is None:
            return params
        ring = self._rings.ring
        reached = channel.targets[0].key
        if reached in {key for key, _ in notification.recipient.addresses.values()}:
            subject = reached
        elif notification.user_id is not None:
            subject = user_subject(ring, notification.user_id)
        else:
            return params
        return {**params, PARAMETER: link(self._public_url, ring, Refusal(subject, channel.channel, entry.name))}

    def _written(
        self, notification: Notification, channel: str, params: Mapping[str, Any], template: Template | None
    ) -> Written:
        if template is None:  # the chain said Go, so it was there: the catalogue must be of the same reading
            return Unwritable(Reason.NO_TEMPLATE, f"no template of {notification.type} for {channel}")
        try:
            content = self._renderer.render(template, params, zone=notification.recipient.zone)
        except RenderError as error:
            return Unwritable(Reason.RENDER, f"{channel} {template.locale} v{template.version}: {error}")
        row = notification.id.bytes + channel.encode()
        sealed = seal(self._rings.ring, Purpose.CONTENT, row, orjson.dumps(content))
        return NewContent(
            channel, sealed, template.locale, template.version, self._for_inbox(notification, channel, content)
        )

    def _for_inbox(self, notification: Notification, channel: str, content: Mapping[str, str]) -> bytes | None:
        """The inbox is a store of its own (shared/core/inbox.py): it holds a copy under its own purpose."""
        if channel != INBOX.name:
            return None
        return seal(self._rings.ring, Purpose.INBOX, notification.id.bytes, orjson.dumps(content))

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
