"""Principals: whom a connection speaks for (Kafka's KafkaPrincipal)."""

from typing import Final, NamedTuple

USER_TYPE: Final = "User"


class KafkaPrincipal(NamedTuple):
    """A name and what kind of name it is, written `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "KafkaPrincipal":
        """Read `Type:name`; the name may contain colons. Raises ValueError (Kafka's SecurityUtils)."""
        principal_type, colon, name = text.partition(":")
        if not (principal_type and colon and name):
            raise ValueError(f"expected a principal in the format principalType:principalName but got {text!r}")
        return cls(principal_type, name)


ANONYMOUS: Final = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
"""Principal of clients that have not said who they are: all those of a PLAINTEXT listener."""
