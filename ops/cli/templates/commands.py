"""`ulak templates`: its commands. Each is a file of its own.

Exit codes: 0 done (or nothing to do); 1 something is wrong, said by file and field, and nothing was changed; for
`diff`: the files differ from the database.
"""

import typer

from ops.cli.templates.difference import diff
from ops.cli.templates.life import publish, rollback, versions
from ops.cli.templates.listing import list_templates
from ops.cli.templates.preview import preview
from ops.cli.templates.push import push

app = typer.Typer(help="Notification types, templates and event mappings.", no_args_is_help=True)

for command in (push, diff, preview, versions, publish, rollback):
    app.command()(command)
app.command(name="list")(list_templates)
