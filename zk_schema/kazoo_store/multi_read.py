"""ZooKeeper's request to read several znodes at once (type 22, since 3.6), which kazoo does not have.

A controller that takes over reads a znode for each partition of the cluster. One request for each of them, on its way
through kazoo's thread, takes ten times the processor of this one.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from kazoo.exceptions import EXCEPTIONS, NoNodeError, UnimplementedError
from kazoo.protocol.serialization import (
    GetData,
    MultiHeader,
    int_struct,
    multiheader_struct,
    read_buffer,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import ZnodeStat

READ_FAILED = -1
"""Type of the answer for a znode that could not be read."""


@dataclass(frozen=True, slots=True)
class MultiRead:
    """Request for the data and stats of `paths`, without watches; they need not be of one moment."""

    paths: list[str]

    type: ClassVar[int] = 22

    def serialize(self) -> bytearray:
        data = bytearray()
        for path in self.paths:
            data += multiheader_struct.pack(GetData.type, False, -1) + write_string(path) + b"\0"
        data += multiheader_struct.pack(-1, True, -1)
        return data

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[tuple[bytes, Any] | None]:
        """Return (data, stat) of each, None where there is no znode. Raises kazoo's exceptions of what else went wrong:
        UnimplementedError for the empty answer of a server that does not know the request."""
        if offset == len(data):
            raise UnimplementedError
        found: list[tuple[bytes, Any] | None] = []
        header, offset = MultiHeader.deserialize(data, offset)
        while not header.done:
            if header.type == READ_FAILED:
                error = EXCEPTIONS[int_struct.unpack_from(data, offset)[0]]
                offset += int_struct.size
                if error is not NoNodeError:
                    raise error
                found.append(None)
            else:
                content, offset = read_buffer(data, offset)
                found.append((content or b"", ZnodeStat._make(stat_struct.unpack_from(data, offset))))
                offset += stat_struct.size
            header, offset = MultiHeader.deserialize(data, offset)
        return found


def read_many(client: Any, paths: list[str]) -> Any:
    """Send the request by a client of kazoo's; return its answer to come."""
    answer = client.handler.async_result()
    client._call(MultiRead(paths), answer)
    return answer
