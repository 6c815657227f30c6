"""Which templates a notification would use, worked out once per type and locale of a batch."""

from collections.abc import Mapping

from shared.core.catalogue import Catalogue, Template
from shared.wire.channel import Channels


class TemplateChoice:
    """The catalogue of one batch, asked for the templates of a type in a recipient's language (J3).

    Lives as long as the batch, so it is never older than the catalogue, and a batch asks for few types and locales.
    """

    def __init__(self, catalogue: Catalogue, channels: Channels, default_locale: str) -> None:
        self.catalogue = catalogue
        self._channels = channels
        self._default_locale = default_locale
        self._chosen: dict[tuple[str, str | None], Mapping[str, Template]] = {}

    def by_channel(self, type_name: str, locale: str | None) -> Mapping[str, Template]:
        """Channel -> template; a channel without one in this or the default locale is not in it."""
        chosen = self._chosen.get((type_name, locale))
        if chosen is None:
            found = {
                name: self.catalogue.template(type_name, name, locale, self._default_locale)
                for name in self._channels.names
            }
            chosen = {name: template for name, template in found.items() if template is not None}
            self._chosen[type_name, locale] = chosen
        return chosen
