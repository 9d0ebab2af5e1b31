"""`odradek users add|list|delete`: users that can log in with SCRAM.

They are written to ZooKeeper, which works even before the first broker starts, or sent to a broker, if ZooKeeper cannot
be reached.
"""

import os
import secrets
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import Json, check_addresses, connect, new_app, one_of
from odradek.cli.output import print_json, print_table
from odradek.cli.zookeeper import DEFAULT_ZOOKEEPER, ZooKeeperFile, with_store, zookeeper_option

if TYPE_CHECKING:
    from odradek.client.admin.access_values import ScramMechanism
    from odradek.client.admin.client import KafkaAdminClient
    from odradek.zk_schema.store import Store

PASSWORD_VARIABLE = "ODRADEK_USER_PASSWORD"

users = new_app("Add, list and delete users that log in with SCRAM. A running cluster applies changes at once.")

PasswordFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help=f"file with the password; without it ${PASSWORD_VARIABLE}, or stdin"),
]
ZooKeeper = Annotated[
    str | None, zookeeper_option(f"the cluster's ZooKeeper; several hosts separated by commas [{DEFAULT_ZOOKEEPER}]")
]
BootstrapServer = Annotated[
    str | None,
    typer.Option(
        callback=lambda given: given and check_addresses(given),
        metavar="HOST:PORT",
        help="running brokers, in place of ZooKeeper",
    ),
]
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
Mechanism = Annotated[
    list[str] | None, typer.Option(callback=one_of(*MECHANISMS), help=f"{' or '.join(MECHANISMS)}; default: both")
]


@users.command()
def add(
    name: str,
    password_file: PasswordFile = None,
    mechanism: Mechanism = None,
    iterations: Annotated[int, typer.Option(min=4096, max=16384)] = 4096,
    zookeeper: ZooKeeper = None,
    zk_tls_config_file: ZooKeeperFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Add a user, or set another password."""
    from odradek.client.admin.access_values import UserScramCredentialUpsertion
    from odradek.security.scram import SALT_BYTES, encode_credential, new_credential

    _check_name(name)
    _check_place(bootstrap_server, zookeeper, zk_tls_config_file)
    password = _password(password_file)
    mechanisms = mechanism or MECHANISMS
    if bootstrap_server:
        with connect(bootstrap_server) as admin:
            admin.alter_user_scram_credentials(
                UserScramCredentialUpsertion(name, _number(one), password, iterations) for one in mechanisms
            )
        return
    made = {
        one: encode_credential(new_credential(one, password, secrets.token_bytes(SALT_BYTES), iterations))
        for one in mechanisms
    }

    async def change(store: "Store") -> None:
        await _change(store, name, lambda settings: settings | made)

    with_store(zookeeper or DEFAULT_ZOOKEEPER, zk_tls_config_file, change)


@users.command()
def delete(
    name: str,
    mechanism: Mechanism = None,
    zookeeper: ZooKeeper = None,
    zk_tls_config_file: ZooKeeperFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Delete a user's credentials; other settings of the user stay."""
    from odradek.client.admin.access_values import UserScramCredentialDeletion

    _check_name(name)
    _check_place(bootstrap_server, zookeeper, zk_tls_config_file)
    mechanisms = set(mechanism or MECHANISMS)

    def present(having: Iterable[str]) -> set[str]:
        if not (found := mechanisms.intersection(having)):
            raise OSError(f"there is no user {name} with {' or '.join(sorted(mechanisms))}")
        return found

    if bootstrap_server:
        with connect(bootstrap_server) as admin:
            gone = present(_told(admin).get(name, ()))
            admin.alter_user_scram_credentials(UserScramCredentialDeletion(name, _number(one)) for one in gone)
        return

    def without(settings: dict[str, str]) -> dict[str, str]:
        gone = present(settings)
        return {key: text for key, text in settings.items() if key not in gone}

    async def change(store: "Store") -> None:
        await _change(store, name, without)

    with_store(zookeeper or DEFAULT_ZOOKEEPER, zk_tls_config_file, change)


@users.command("list")
def list_(
    zookeeper: ZooKeeper = None,
    zk_tls_config_file: ZooKeeperFile = None,
    bootstrap_server: BootstrapServer = None,
    json: Json = False,
) -> None:
    """List users and their mechanisms."""
    _check_place(bootstrap_server, zookeeper, zk_tls_config_file)
    if bootstrap_server:
        with connect(bootstrap_server) as admin:
            found = _told(admin)
    else:
        found = with_store(zookeeper or DEFAULT_ZOOKEEPER, zk_tls_config_file, _stored)
    if json:
        print_json([{"user": user, "mechanisms": mechanisms} for user, mechanisms in found.items()])
    else:
        print_table(["user", "mechanisms"], [(user, ", ".join(mechanisms)) for user, mechanisms in found.items()])


def _told(admin: "KafkaAdminClient") -> dict[str, list[str]]:
    known = admin.describe_user_scram_credentials()
    return {user: [MECHANISMS[one - 1] for one in sorted(mechanisms) if one] for user, mechanisms in known.items()}


async def _stored(store: "Store") -> dict[str, list[str]]:
    from odradek.zk_schema.entity_settings import stored_settings
    from odradek.zk_schema.store import children_if_any
    from odradek.zk_schema.znodes.configs import USERS, desanitize, entity_type_path

    found = {}
    for name in await children_if_any(store, entity_type_path(USERS)):
        settings = await stored_settings(store, f"{USERS}/{name}")
        mechanisms = [one for one in MECHANISMS if one in settings]
        if mechanisms:
            found[desanitize(name)] = mechanisms
    return found


def _check_name(name: str) -> None:
    from odradek.zk_schema.znodes.configs import is_part_of_path, sanitize

    if not name:
        raise typer.BadParameter("it is empty", param_hint="NAME")
    try:
        fits = is_part_of_path(sanitize(name))
    except UnicodeEncodeError:
        raise typer.BadParameter(f"{name!r} has characters that UTF-8 cannot encode", param_hint="NAME") from None
    if not fits:
        raise typer.BadParameter(f"{name!r} cannot be part of a path in ZooKeeper", param_hint="NAME")


def _check_place(bootstrap_server: str | None, zookeeper: str | None, zookeeper_file: Path | None) -> None:
    if bootstrap_server and (zookeeper or zookeeper_file):
        raise typer.BadParameter("not together with the options for ZooKeeper", param_hint="--bootstrap-server")


def _number(mechanism: str) -> "ScramMechanism":
    """Return a mechanism's number in the protocol."""
    from odradek.client.admin.access_values import ScramMechanism

    return ScramMechanism(MECHANISMS.index(mechanism) + 1)


async def _change(store: "Store", name: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    from odradek.zk_schema.entity_settings import alter_entity
    from odradek.zk_schema.znodes.configs import USERS, sanitize

    await alter_entity(store, f"{USERS}/{sanitize(name)}", change)


def _password(path: Path | None) -> str:
    """Read the password, but never from the command line, which everybody on the machine can read."""
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise typer.BadParameter(
                f"{path} is not text in UTF-8: {error.reason}", param_hint="--password-file"
            ) from None
    elif PASSWORD_VARIABLE in os.environ:
        text = os.environ[PASSWORD_VARIABLE]
    elif sys.stdin.isatty():
        text = str(typer.prompt("password", hide_input=True, confirmation_prompt=True))
    else:
        text = sys.stdin.readline()
    password = text.rstrip("\r\n")
    if not password:
        places = f"--password-file FILE, ${PASSWORD_VARIABLE}, or a line of standard input"
        raise typer.BadParameter(f"it is empty: give it by {places}", param_hint="the password")
    return password
