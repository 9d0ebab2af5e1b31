"""CRC-32C, the checksum of record batches and of snapshots: by the processor's own instruction if it can be used.

The package `crc32c` asks the installed metadata for its own version when it is imported, and so loads `email`,
`zipfile` and more: a tenth of a broker's start. Its extension needs none of that and is loaded from its file.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, TypeAlias

from odradek.protocol.primitives import Buffer

Checksum: TypeAlias = Callable[[Buffer], int]


def in_hardware() -> Checksum | None:
    """Return the function that uses the processor's instruction; None without the package `crc32c`."""
    package = find_spec("crc32c")
    found = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if not found or found.loader is None:
        return None
    extension: Any = module_from_spec(found)
    found.loader.exec_module(extension)
    function: Checksum = extension.crc32c
    return function


def in_software() -> Checksum:
    """Return a function for the same checksum in Python, a thousand times slower."""
    from crcmod.predefined import mkPredefinedCrcFun

    function: Checksum = mkPredefinedCrcFun("crc-32c")
    return function


crc32c: Checksum = in_hardware() or in_software()
