"""Options and arguments that several of these commands share."""

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="The notification type, like ORDER_SHIPPED.")]
ChannelArgument = Annotated[str, typer.Argument(metavar="CHANNEL", help="EMAIL, PUSH, SMS or INBOX.")]
LocaleArgument = Annotated[str, typer.Argument(metavar="LOCALE", help="A language tag, like tr or tr-TR.")]
