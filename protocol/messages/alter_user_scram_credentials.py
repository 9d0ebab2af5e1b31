"""AlterUserScramCredentials: API key 51, version 0, flexible from 0. To the controller.

Sets and deletes SCRAM credentials; the salted password comes from the client. All changes of one user are made or
none: UNACCEPTABLE_CREDENTIAL (iterations out of 4096-16384), UNSUPPORTED_SASL_MECHANISM, DUPLICATE_RESOURCE.
"""

from odradek.protocol.fields import BYTES, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class ScramCredentialDeletion(Struct):
    name: str = field(STRING, "0+")
    mechanism: int = field(INT8, "0+")


class ScramCredentialUpsertion(Struct):
    name: str = field(STRING, "0+")
    mechanism: int = field(INT8, "0+")
    iterations: int = field(INT32, "0+")
    salt: bytes = field(BYTES, "0+")
    salted_password: bytes = field(BYTES, "0+")


class AlterUserScramCredentialsRequest(Message):
    API_KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    deletions: list[ScramCredentialDeletion] = field(Array(ScramCredentialDeletion), "0+")
    upsertions: list[ScramCredentialUpsertion] = field(Array(ScramCredentialUpsertion), "0+")


class AlterUserScramCredentialsResult(Struct):
    user: str = field(STRING, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")


class AlterUserScramCredentialsResponse(Message):
    API_KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    results: list[AlterUserScramCredentialsResult] = field(Array(AlterUserScramCredentialsResult), "0+")
