"""Values that stand elsewhere, `${file:/run/secrets/broker.properties:password}`: the file of settings has no secrets.

Kafka's config providers (KIP-297, KIP-421, KIP-887): `config.providers` names them, `config.providers.<name>.class` is
what they are. FileConfigProvider (a key of a properties file), DirectoryConfigProvider (a file of a directory) and
EnvVarConfigProvider are known here. `config.providers.<name>.param.allowed.paths` (KIP-993) says where the first two
may read, `config.providers.<name>.param.allowlist.pattern` which variables the last may.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from odradek.broker.settings.definition import BadValue
from odradek.broker.settings.properties import BadProperties, parse_properties

SETTING: Final = "config.providers"
ALLOWED_PATHS: Final = "allowed.paths"
ALLOWED_NAMES: Final = "allowlist.pattern"
REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

Provide = Callable[[str, str], str | None]
"""Finds the value for a path and a key; None: there is none. Raises OSError, BadProperties, ForbiddenReference."""


class ForbiddenReference(Exception):  # noqa: N818 - says what it is
    """Raised for a reference that the provider's own settings do not allow."""


def is_about_providers(name: str) -> bool:
    """Tell whether a setting says what providers there are."""
    return name == SETTING or name.startswith(f"{SETTING}.")


def resolve(settings: Mapping[str, str]) -> dict[str, str]:
    """Replace references by the values that they name. Raises BadValue, which shows no value."""
    providers = _providers(settings)

    def value(name: str, match: re.Match[str]) -> str:
        provide = providers.get(match[1])
        if provide is None:
            return match[0]
        try:
            found = provide(match[2] or "", match[3])
        except OSError as error:
            raise BadValue(name, None, f"{match[0]}: {error.strerror}") from None
        except ForbiddenReference as error:
            raise BadValue(name, None, f"{match[0]}: {error}") from None
        except BadProperties as error:
            raise BadValue(name, None, f"{match[0]}: line {error.line}: {error.reason}") from None
        except UnicodeDecodeError:  # whose text shows a part of the value
            raise BadValue(name, None, f"{match[0]}: the file is no text in UTF-8") from None
        if found is None:
            raise BadValue(name, None, f"{match[0]}: there is no such value")
        return found

    return {
        name: REFERENCE.sub(lambda match, name=name: value(name, match), text)  # type: ignore[misc]
        for name, text in settings.items()
    }


def _providers(settings: Mapping[str, str]) -> dict[str, Provide]:
    found = {}
    for name in filter(None, (one.strip() for one in settings.get(SETTING, "").split(","))):
        setting = f"{SETTING}.{name}.class"
        if setting not in settings:
            raise BadValue(SETTING, name, f"{name} needs {setting}: one of {', '.join(KNOWN)}")
        make = KNOWN.get(settings[setting].rpartition(".")[2])
        if make is None:
            raise BadValue(setting, settings[setting], f"is not one of {', '.join(KNOWN)}")
        found[name] = make(settings, f"{SETTING}.{name}.param.")
    return found


def _files(settings: Mapping[str, str], prefix: str) -> Provide:
    """Make what reads keys of properties files."""
    check = _path_check(settings, f"{prefix}{ALLOWED_PATHS}")

    def of_file(path: str, key: str) -> str | None:
        check(path)
        entries = parse_properties(Path(path).read_text(encoding="utf-8"))
        return next((one.value for one in reversed(entries) if one.key == key), None)

    return of_file


def _directories(settings: Mapping[str, str], prefix: str) -> Provide:
    """Make what reads files of directories, as container platforms lay secrets down; none outside a directory."""
    check = _path_check(settings, f"{prefix}{ALLOWED_PATHS}")

    def of_directory(path: str, key: str) -> str | None:
        check(path)
        return (Path(path) / key).read_text(encoding="utf-8") if Path(key).name == key else None

    return of_directory


def _path_check(settings: Mapping[str, str], setting: str) -> Callable[[str], None]:
    """Make what raises ForbiddenReference for a path outside of those that a setting lists; without it any will do."""
    text = settings.get(setting, "").strip()
    allowed = [Path(os.path.normpath(one.strip())) for one in text.split(",")] if text else None
    for one in allowed or ():
        if not one.is_absolute():
            raise BadValue(setting, text, f"{one} is not an absolute path")
        if not one.exists():
            raise BadValue(setting, text, f"{one} does not exist")

    def check(path: str) -> None:
        if allowed is not None and not any(Path(os.path.normpath(path)).is_relative_to(one) for one in allowed):
            raise ForbiddenReference(f"{setting} does not allow the path")

    return check


def _environment(settings: Mapping[str, str], prefix: str) -> Provide:
    """Make what reads variables of the environment."""
    setting = f"{prefix}{ALLOWED_NAMES}"
    try:
        allowed = re.compile(settings.get(setting) or ".*", re.DOTALL)
    except re.error as error:
        raise BadValue(setting, settings[setting], f"is no regular expression: {error}") from None

    def of_environment(path: str, key: str) -> str | None:
        if not allowed.fullmatch(key):
            raise ForbiddenReference(f"{setting} does not allow the variable")
        return os.environ.get(key)

    return of_environment


KNOWN: Final[Mapping[str, Callable[[Mapping[str, str], str], Provide]]] = {
    "FileConfigProvider": _files,
    "DirectoryConfigProvider": _directories,
    "EnvVarConfigProvider": _environment,
}
"""What makes a provider of a class, from the settings and the prefix of the provider's own."""
