"""Survey of an entry of `log.dirs` without a broker: whose it is, what is in it, what is wrong. Nothing is changed."""

import errno
from dataclasses import dataclass, field

from odradek.broker.log.directories.directory_files import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    SET_ASIDE_SUFFIXES,
    MetaProperties,
    OtherMode,
    decode_meta,
    parse_partition_name,
)
from odradek.broker.log.dump.checking import verify
from odradek.broker.log.dump.rows import Damage
from odradek.broker.log.errors import CorruptFile
from odradek.broker.log.segment import LOG
from odradek.world.files import Files


@dataclass
class Survey:
    """Contents of a log directory."""

    path: str
    owner: MetaProperties
    stopped_cleanly: bool
    """True when the last broker said so as it ended; else the next one checks what was not flushed."""
    partitions: int = 0
    segments: int = 0
    log_bytes: int = 0
    set_aside: list[str] = field(default_factory=list)
    """Directories that wait for their removal, for the end of a move, or, as strays, for people."""
    damage: list[Damage] = field(default_factory=list)


def owner_of(files: Files, path: str) -> MetaProperties:
    """Read whose a log directory is; all is None of one that no broker has taken yet.

    Raises OSError, also when `meta.properties` makes no sense or is of KRaft mode.
    """
    file = f"{path}/{META_PROPERTIES}"
    try:
        return decode_meta(files.read(file))[0]
    except FileNotFoundError:
        return MetaProperties()
    except (CorruptFile, OtherMode) as error:
        raise OSError(errno.EIO, str(error), file) from None


def survey(files: Files, path: str) -> Survey:
    """Read every byte of a log directory. Raises OSError when the directory itself, or whose it is, cannot be read."""
    if not files.is_directory(path):
        raise NotADirectoryError(errno.ENOTDIR, "there is no such directory", path)
    found = Survey(path, owner_of(files, path), files.exists(f"{path}/{CLEAN_SHUTDOWN}"))
    for name in sorted(files.list_directory(path)):
        directory = f"{path}/{name}"
        if not files.is_directory(directory):
            continue
        if name.endswith(SET_ASIDE_SUFFIXES):
            found.set_aside.append(name)
        if parse_partition_name(name) is None:
            continue
        logs = [one for one in files.list_directory(directory) if one.endswith(LOG)]
        found.partitions += 1
        found.segments += len(logs)
        found.log_bytes += sum(files.size(f"{directory}/{one}") for one in logs)
    found.damage.extend(verify(files, path))
    return found
