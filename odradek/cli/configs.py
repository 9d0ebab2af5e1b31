"""`odradek configs describe|alter`: settings of topics and brokers, and levels of brokers' loggers."""

from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json, connect, new_app, settings
from odradek.cli.output import print_json, print_table

if TYPE_CHECKING:
    from odradek.client.admin.values import ConfigResource

configs = new_app("Describe and alter settings of topics and brokers.")

Topic = Annotated[str | None, typer.Option(metavar="NAME", help="the settings of this topic")]
Broker = Annotated[int | None, typer.Option(metavar="ID", help="the settings of this broker")]
BrokerDefaults = Annotated[bool, typer.Option("--broker-defaults", help="the dynamic settings for all brokers")]

BrokerLoggers = Annotated[
    int | None,
    typer.Option("--broker-loggers", metavar="ID", help="the levels of this broker's loggers"),
]


def _resource(
    topic: str | None, broker: int | None, broker_defaults: bool, broker_loggers: int | None
) -> "ConfigResource":
    from odradek.client.admin.values import ConfigResource, ResourceType

    if (topic is not None) + (broker is not None) + broker_defaults + (broker_loggers is not None) != 1:
        raise typer.BadParameter("give one of --topic, --broker, --broker-defaults, --broker-loggers")
    if broker_loggers is not None:
        return ConfigResource(ResourceType.BROKER_LOGGER, str(broker_loggers))
    if topic is not None:
        return ConfigResource(ResourceType.TOPIC, topic)
    return ConfigResource(ResourceType.BROKER, "" if broker is None else str(broker))


def _lists(given: list[str] | None, option: str) -> dict[str, str]:
    """Parse `KEY=VALUE` texts; values of the same key are joined to one list. Raises BadParameter."""
    found: dict[str, str] = {}
    for text in given or ():
        for name, value in settings([text], option).items():
            found[name] = f"{found[name]},{value}" if name in found else value
    return found


@configs.command()
def describe(
    topic: Topic = None,
    broker: Broker = None,
    broker_defaults: BrokerDefaults = False,
    broker_loggers: BrokerLoggers = None,
    all_: Annotated[bool, typer.Option("--all", help="include settings at their defaults")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Show which settings are set, and where: for the topic, the broker, or all brokers."""
    from odradek.client.admin.values import ConfigSource

    resource = _resource(topic, broker, broker_defaults, broker_loggers)
    with connect(bootstrap_server) as admin:
        entries = admin.describe_configs([resource])[resource]
    usual = (ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG)
    shown = sorted((one for one in entries if all_ or one.source not in usual), key=lambda one: one.name)
    if json:
        print_json(shown)
        return
    print_table(
        ["name", "value", "source"],
        [
            (one.name, "(hidden)" if one.sensitive else one.value, one.source.name.lower().replace("_", " "))
            for one in shown
        ],
    )


@configs.command()
def alter(
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="set a setting")] = None,
    delete: Annotated[list[str] | None, typer.Option(metavar="KEY", help="reset a setting to its default")] = None,
    append: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="append to a list")] = None,
    subtract: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="remove from a list")] = None,
    topic: Topic = None,
    broker: Broker = None,
    broker_defaults: BrokerDefaults = False,
    broker_loggers: BrokerLoggers = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Change single settings and keep all others."""
    from odradek.client.admin.configs import Change, Operation

    changes: list[Change] = [(name, Operation.SET, value) for name, value in settings(set_, "--set").items()]
    changes += [(name, Operation.DELETE, None) for name in delete or ()]
    changes += [(name, Operation.APPEND, value) for name, value in _lists(append, "--append").items()]
    changes += [(name, Operation.SUBTRACT, value) for name, value in _lists(subtract, "--subtract").items()]
    if not changes:
        raise typer.BadParameter("give --set, --delete, --append or --subtract")
    resource = _resource(topic, broker, broker_defaults, broker_loggers)
    with connect(bootstrap_server) as admin:
        admin.alter_configs({resource: changes})
    if json:
        print_json({"altered": [name for name, _, _ in changes]})
    else:
        print(f"altered {', '.join(name for name, _, _ in changes)}")
