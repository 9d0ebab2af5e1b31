"""`odradek users add|list|delete`: who may log in with SCRAM, written to ZooKeeper, before the first start as well."""

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import Json, new_app, one_of
from odradek.cli.output import print_json, print_table
from odradek.cli.zookeeper import DEFAULT_ZOOKEEPER, ZooKeeper, ZooKeeperFile, with_store

if TYPE_CHECKING:
    from odradek.zk_schema.store import Store

PASSWORD_VARIABLE = "ODRADEK_USER_PASSWORD"

users = new_app("Add, list and delete users who log in with SCRAM. A running cluster applies changes at once.")

PasswordFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help=f"file with the password; without it ${PASSWORD_VARIABLE}, or stdin"),
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
    zookeeper: ZooKeeper = DEFAULT_ZOOKEEPER,
    zk_tls_config_file: ZooKeeperFile = None,
) -> None:
    """Add a user, or set another password."""
    from odradek.security.scram import SALT_BYTES, encode_credential, new_credential

    _check_name(name)
    password = _password(password_file)
    made = {
        one: encode_credential(new_credential(one, password, secrets.token_bytes(SALT_BYTES), iterations))
        for one in mechanism or MECHANISMS
    }

    async def change(store: "Store") -> None:
        await _change(store, name, lambda settings: settings | made)

    with_store(zookeeper, zk_tls_config_file, change)


@users.command()
def delete(
    name: str,
    mechanism: Mechanism = None,
    zookeeper: ZooKeeper = DEFAULT_ZOOKEEPER,
    zk_tls_config_file: ZooKeeperFile = None,
) -> None:
    """Delete a user's credentials; other settings of the user stay."""
    _check_name(name)
    gone = set(mechanism or MECHANISMS)

    def without(settings: dict[str, str]) -> dict[str, str]:
        if not gone & set(settings):
            raise OSError(f"there is no user {name} with {' or '.join(sorted(gone))}")
        return {key: text for key, text in settings.items() if key not in gone}

    async def change(store: "Store") -> None:
        await _change(store, name, without)

    with_store(zookeeper, zk_tls_config_file, change)


@users.command("list")
def list_(
    zookeeper: ZooKeeper = DEFAULT_ZOOKEEPER, zk_tls_config_file: ZooKeeperFile = None, json: Json = False
) -> None:
    """List users and their mechanisms."""
    found = with_store(zookeeper, zk_tls_config_file, _all)
    if json:
        print_json([{"user": user, "mechanisms": mechanisms} for user, mechanisms in found])
    else:
        print_table(["user", "mechanisms"], [(user, ", ".join(mechanisms)) for user, mechanisms in found])


async def _all(store: "Store") -> list[tuple[str, list[str]]]:
    from odradek.zk_schema.entity_settings import stored_settings
    from odradek.zk_schema.store import children_if_any
    from odradek.zk_schema.znodes.configs import USERS, desanitize, entity_type_path

    found = []
    for name in await children_if_any(store, entity_type_path(USERS)):
        settings = await stored_settings(store, f"{USERS}/{name}")
        mechanisms = [one for one in MECHANISMS if one in settings]
        if mechanisms:
            found.append((desanitize(name), mechanisms))
    return found


def _check_name(name: str) -> None:
    if not name:
        raise typer.BadParameter("a user has a name", param_hint="NAME")


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
                f"{path} is no text in UTF-8: {error.reason}", param_hint="--password-file"
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
