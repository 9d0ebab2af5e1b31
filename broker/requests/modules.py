"""Request modules, seen from outside: each has

- `REQUEST`, the class of its request,
- `VERSIONS`, the lowest and the highest version that it really serves, which is what ApiVersions advertises,
- `handle(broker, request, context) -> Outcome`.
"""

from collections.abc import Mapping, Sequence
from types import ModuleType


def by_key(modules: Sequence[ModuleType]) -> dict[int, ModuleType]:
    """The modules by API key."""
    table = {module.REQUEST.API_KEY: module for module in modules}
    assert len(table) == len(modules), "two modules serve one API"
    return table


def served_versions(modules: Mapping[int, ModuleType]) -> dict[int, tuple[int, int]]:
    """What ApiVersions advertises: API key to lowest and highest version, in the order of the keys."""
    return {key: modules[key].VERSIONS for key in sorted(modules)}
