"""Options that several commands share."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from odradek.client.admin.client import KafkaAdminClient
    from odradek.client.records import TopicPartition

Given = TypeVar("Given", str, list[str])


def check_addresses(text: str) -> str:
    """Check the addresses of brokers. Raises BadParameter."""
    from odradek.client.config import addresses
    from odradek.client.errors import ConfigError

    try:
        addresses([one.strip() for one in text.split(",") if one.strip()])
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    return text


def one_of(*names: str) -> Callable[[Given], Given]:
    """Return a callback that checks the values of an option: each must be one of `names`, in any case, and is returned
    as written in `names`. It raises BadParameter."""
    known = {name.lower(): name for name in names}

    def check(given: Given) -> Given:
        if isinstance(given, str):
            if given.lower() not in known:
                raise typer.BadParameter(f"{given!r} is not one of {', '.join(names)}")
            return known[given.lower()]
        return [check(one.strip()) for text in given or () for one in text.split(",")]

    return check


BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server", callback=check_addresses, help="host:port of one or more brokers, separated by commas"
    ),
]
Acks = Annotated[str | None, typer.Option(callback=one_of("all", "1", "0", "-1"), help="all (the default), 1 or 0")]
Json = Annotated[bool, typer.Option("--json", help="print JSON, for scripts")]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="a client setting by Kafka's name")
]
NO_NEW_TOPIC = {"allow.auto.create.topics": "false"}
"""Settings of commands that read: a misspelled name must not create a topic."""
DEFAULT_BOOTSTRAP_SERVER = "127.0.0.1:9092"
command_config: dict[str, str] = {}
"""Settings from the file of `--command-config`."""
command_config_files: list[str] = []
"""Path of that file as its only element; empty without the option."""
origins: dict[str, str] = {}
"""Setting of a client → where it was given, for messages about wrong ones."""


def new_app(help_text: str) -> typer.Typer:
    """Make a command with subcommands."""
    return typer.Typer(
        help=help_text,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def connect(bootstrap_server: str) -> "KafkaAdminClient":
    """Return an administrative client, which gives up after half a minute, as somebody is waiting. Raises KafkaError at
    once if no broker answers."""
    from odradek.client.admin.client import KafkaAdminClient

    admin = KafkaAdminClient(
        command_config,
        bootstrap_servers=bootstrap_server,
        client_id="odradek-cli",
        request_timeout_ms=30_000,
        default_api_timeout_ms=30_000,
        socket_connection_setup_timeout_ms=5_000,
    )
    try:
        admin.describe_cluster()  # if nobody is there, this fails now, and not after half a minute of attempts
    except BaseException:
        admin.close()
        raise
    return admin


def read_command_config(path: str) -> None:
    """Give all clients of this process the settings of a properties file. Raises OSError."""
    from odradek.broker.settings.properties import BadProperties, parse_properties

    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # as brokers read theirs
            found = parse_properties(file.read())
    except BadProperties as error:
        raise OSError(f"{path}:{error.line}: {error.reason}") from None
    command_config_files.append(path)
    command_config.update((one.key, one.value) for one in found)
    origins.update((one.key, f"{path}:{one.line}") for one in found)


def settings(given: Iterable[str] | None, option: str = "--property") -> dict[str, str]:
    """Parse `KEY=VALUE` texts into a mapping. Raises BadParameter when one has no `=`."""
    pairs = dict(command_config) if option == "--property" else {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
        pairs[key.strip()] = value
        origins[key.strip()] = option
    return pairs


def chosen(**options: str | None) -> dict[str, str]:
    """Return the options that were given, by the names of the settings that they set."""
    return {name.replace("_", "."): value for name, value in options.items() if value}


def topic_partition(text: str) -> "TopicPartition":
    """Parse `orders-3` or `orders:3`. Raises BadParameter when it is neither."""
    from odradek.client.records import TopicPartition
    from odradek.zk_schema.znodes.json_data import number_named

    for separator in (":", "-"):
        topic, found, number = text.rpartition(separator)
        if found and topic and (index := number_named(number)) is not None:
            return TopicPartition(topic, index)
    raise typer.BadParameter(f"{text!r} is not TOPIC-PARTITION, such as orders-3")
