"""Values that stand elsewhere: `${file:/run/secrets/broker.properties:password}`, so that a file of settings has none.

Kafka's config providers (KIP-297, KIP-421, KIP-887): `config.providers` names them, `config.providers.<name>.class` is
what they are. FileConfigProvider (a key of a properties file), DirectoryConfigProvider (a file of a directory) and
EnvVarConfigProvider are known here.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from odradek.broker.settings.definition import BadValue
from odradek.broker.settings.properties import BadProperties, parse_properties

SETTING: Final = "config.providers"
REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

Provide = Callable[[str, str], str | None]
"""Path and key to a value; None where there is none. Raises OSError and BadProperties."""


def is_about_providers(name: str) -> bool:
    """Tell whether a setting says what providers there are."""
    return name == SETTING or name.startswith(f"{SETTING}.")


def resolve(settings: Mapping[str, str]) -> dict[str, str]:
    """Put the values in the place of references to them. Raises BadValue, which shows no value."""
    providers = _providers(settings)

    def value(name: str, match: re.Match[str]) -> str:
        provide = providers.get(match[1])
        if provide is None:
            return match[0]
        try:
            found = provide(match[2] or "", match[3])
        except OSError as error:
            raise BadValue(name, None, f"{match[0]}: {error.strerror}") from None
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
        made = KNOWN.get(settings.get(setting, "").rpartition(".")[2])
        if made is None:
            raise BadValue(setting, settings.get(setting), f"is not one of {', '.join(KNOWN)}")
        found[name] = made
    return found


def _of_file(path: str, key: str) -> str | None:
    entries = parse_properties(Path(path).read_text(encoding="utf-8"))
    return next((one.value for one in reversed(entries) if one.key == key), None)


def _of_directory(path: str, key: str) -> str | None:
    """Return the content of a file, as container platforms lay secrets down; of none outside the directory."""
    if Path(key).name != key:
        return None
    return (Path(path) / key).read_text(encoding="utf-8")


def _of_environment(path: str, key: str) -> str | None:
    return os.environ.get(key)


KNOWN: Final[Mapping[str, Provide]] = {
    "FileConfigProvider": _of_file,
    "DirectoryConfigProvider": _of_directory,
    "EnvVarConfigProvider": _of_environment,
}
