"""Meaning of a file's name: which kind it is, where its segment begins, whose topic it holds."""

from odradek.broker.log.directories.directory_files import SET_ASIDE_SUFFIXES
from odradek.broker.log.dump.small_files import KINDS, Kind
from odradek.broker.log.segment import CLEANED, DELETED, LOG, SWAP

TRANSITIONS = (DELETED, CLEANED, SWAP)


def settled(path: str) -> str:
    """Return the path without the suffix of a change that is going on."""
    for suffix in TRANSITIONS:
        path = path.removesuffix(suffix)
    return path


def is_known(path: str) -> bool:
    """Tell whether a file belongs to a log, by its name."""
    name = settled(path).rpartition("/")[2]
    return any(name.endswith(kind.name_end) for kind in KINDS) or name.endswith(LOG)


def kind_of(path: str) -> Kind | None:
    """Return the kind of a small file; None for a `.log`. Raises ValueError for a name that no file of a log has."""
    name = settled(path).rpartition("/")[2]
    for kind in KINDS:
        if name.endswith(kind.name_end):
            return kind
    if not name.endswith(LOG):
        raise ValueError(f"{path}: not a file of a log")
    return None


def base_offset_of(path: str) -> int:
    """Return 42 of `00000000000000000042.log`; 0 of a file whose name has none."""
    number = path.rpartition("/")[2].partition(".")[0]
    return int(number) if number.isdigit() else 0


def topic_of(path: str) -> str:
    """Return orders of `/data/orders-3/00000000000000000042.log`, also of one to be deleted or moved."""
    directory = path.rpartition("/")[0].rpartition("/")[2]
    if directory.endswith(SET_ASIDE_SUFFIXES):
        directory = directory.rpartition(".")[0]
    return directory.rpartition("-")[0]


def log_of(path: str) -> str:
    """Return the `.log` of the segment that an index belongs to."""
    kind = kind_of(path)
    return path if kind is None else settled(path).removesuffix(kind.name_end) + LOG
