"""`odradek broker FILE.properties [--override key=value]…`: one broker, until a signal ends it."""

from typing import Annotated

import typer


def broker(
    file: Annotated[
        str, typer.Argument(metavar="FILE.properties", help="a server.properties file, with Kafka's names")
    ],
    override: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="override a setting of the file")
    ] = None,
) -> None:
    """Run one broker in the foreground. SIGINT, SIGTERM and SIGHUP shut it down in a controlled way."""
    from odradek.broker.__main__ import main

    arguments = [file]
    for one in override or []:
        arguments += ["--override", one]
    raise typer.Exit(main(arguments) or 0)
