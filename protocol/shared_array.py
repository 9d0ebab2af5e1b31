"""An array of structs that stands in many messages and is encoded once for all of them."""

from typing import Final, TypeVar

from odradek.protocol.fields import Struct
from odradek.protocol.primitives import Part

T = TypeVar("T", bound=Struct)


class SharedArray(list[T]):
    """Elements, which do not change any more, and what they are encoded to in one version: `codec.share` makes it."""

    __slots__ = ("encoding", "version")

    def __init__(self, elements: list[T], version: int, encoding: list[Part]) -> None:
        super().__init__(elements)
        self.version: Final = version
        self.encoding: Final = encoding
