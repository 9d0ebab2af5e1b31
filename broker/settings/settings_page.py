"""The settings as a page of Markdown: name, default, what it does here."""

from collections import Counter
from collections.abc import Iterable, Iterator

from odradek.broker.settings.catalog import THEMES, TOPIC_SETTINGS
from odradek.broker.settings.definition import Effect, Setting
from odradek.broker.settings.elsewhere import ELSEWHERE

INTRODUCTION = """# Settings

For those who look a setting up. Names, defaults and meanings are those of Apache Kafka 3.9 in ZooKeeper mode. *Works*:
obeyed. *Accepted, no effect*: allowed in a file, with a warning when it is not the default. *Refused*: a broker does
not start, or a request fails, when it is not the default. *Live*: may be changed while the broker runs. Made by
`python -m odradek.broker.settings`.

Of {brokers} settings of brokers {broker_counts};
of {topics} of topics {topic_counts}. {elsewhere} more are those of KRaft, remote storage and share groups
(`process.roles`, `controller.quorum.*`, `remote.log.*`, `group.share.*` and the like):
`process.roles` is refused, the others have no effect.
"""


def _counts(settings: Iterable[Setting]) -> str:
    count = Counter(one.effect for one in settings)
    return f"{count[Effect.WORKS]} work, {count[Effect.NONE]} without effect, {count[Effect.REFUSED]} refused"


def render() -> str:
    """Return the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    shown = [one for settings in THEMES.values() for one in settings]
    yield INTRODUCTION.format(
        brokers=len(shown),
        broker_counts=_counts(shown),
        topics=len(TOPIC_SETTINGS),
        topic_counts=_counts(TOPIC_SETTINGS.values()),
        elsewhere=len(ELSEWHERE),
    )
    for theme, settings in THEMES.items():
        yield f"## {theme}\n"
        yield from _table(settings)
        yield ""
    yield "## Topics\n"
    yield from _table(TOPIC_SETTINGS.values())


def _table(settings: Iterable[Setting]) -> Iterator[str]:
    yield "| name | type | default | here | live | meaning |"
    yield "|---|---|---|---|---|---|"
    for one in settings:
        here = f"{one.effect.value}: {one.reason}" if one.reason else one.effect.value
        live = "yes" if one.live else ""
        yield f"| `{one.name}` | {one.type.value} | {_default(one)} | {here} | {live} | {one.documentation} |"


def _default(setting: Setting) -> str:
    if setting.default is None:
        return "null"
    return f"`{setting.default}`" if setting.default else "empty"
