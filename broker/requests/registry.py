"""Which module answers which API: the only list of them. One line per request that is served.

A module of this table has `REQUEST`, the class of its request, `VERSIONS`, the lowest and the highest version that it
really serves, and `handle`.
"""

from collections.abc import Mapping, Sequence
from types import ModuleType

from odradek.broker.requests import (
    api_versions,
)

MODULES: Sequence[ModuleType] = (api_versions,)


def by_key(modules: Sequence[ModuleType]) -> dict[int, ModuleType]:
    """The table by API key."""
    table = {module.REQUEST.API_KEY: module for module in modules}
    assert len(table) == len(modules), "two modules serve one API"
    return table


def served_versions(modules: Mapping[int, ModuleType]) -> dict[int, tuple[int, int]]:
    """What ApiVersions advertises: API key to lowest and highest version, in the order of the keys."""
    return {key: modules[key].VERSIONS for key in sorted(modules)}


HANDLERS = by_key(MODULES)
SERVED = served_versions(HANDLERS)
