"""The settings as a page of Markdown: name, default, what it does here."""

from collections.abc import Callable, Iterable, Iterator

from odradek.broker.settings.catalog import THEMES, TOPIC_SETTINGS
from odradek.broker.settings.definition import Setting
from odradek.broker.settings.effects import REFUSED, TOPIC_REFUSED, Effect, changes_live, effect, topic_effect

INTRODUCTION = """# Settings

Names, defaults and meanings are those of Apache Kafka 3.9 in ZooKeeper mode. *Works*: obeyed. *Accepted, no effect*:
allowed in a file, with a warning when it is not the default. *Refused*: a broker does not start, or a request fails,
when it is not the default. *Live*: may be changed while the broker runs. Made by `python -m odradek.broker.settings`.
"""


def render() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for theme, settings in THEMES.items():
        yield f"## {theme}\n"
        yield from _table(settings, effect, REFUSED)
        yield ""
    yield "## Topics\n"
    yield from _table(TOPIC_SETTINGS.values(), topic_effect, TOPIC_REFUSED)


def _table(settings: Iterable[Setting], does: Callable[[str], Effect], refused: dict[str, str]) -> Iterator[str]:
    yield "| name | type | default | here | live | meaning |"
    yield "|---|---|---|---|---|---|"
    for one in settings:
        here = does(one.name).value
        if one.name in refused:
            here += f": {refused[one.name]}"
        live = "yes" if changes_live(one) and does(one.name) is Effect.WORKS else ""
        yield f"| `{one.name}` | {one.type.value} | {_default(one)} | {here} | {live} | {one.documentation} |"


def _default(setting: Setting) -> str:
    if setting.default is None:
        return "null"
    return f"`{setting.default}`" if setting.default else "empty"
