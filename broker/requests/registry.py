"""Registry of request handlers: which module answers which API. The files of this folder are the list.

A module that answers an API has

- `REQUEST`, the class of its request,
- `VERSIONS`, the lowest and the highest version that it really serves, which is what ApiVersions advertises,
- `handle(broker, request, context) -> Outcome`.

A module without `REQUEST` helps the others.
"""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from types import ModuleType

from odradek.broker import requests


def by_key(modules: Sequence[ModuleType]) -> dict[int, ModuleType]:
    """Return the modules by API key."""
    table = {module.REQUEST.API_KEY: module for module in modules}
    assert len(table) == len(modules), "two modules serve one API"
    return table


def served_versions(modules: Mapping[int, ModuleType]) -> dict[int, tuple[int, int]]:
    """Return what ApiVersions advertises: API key to lowest and highest version, in the order of the keys."""
    return {key: modules[key].VERSIONS for key in sorted(modules)}


_files = [
    importlib.import_module(f"{requests.__name__}.{file.name}") for file in pkgutil.iter_modules(requests.__path__)
]
HANDLERS = by_key([module for module in _files if hasattr(module, "REQUEST")])
SERVED = served_versions(HANDLERS)
