"""DescribeUserScramCredentials: API key 50, version 0, flexible from 0. To any broker.

Which SCRAM mechanisms users have, and with how many iterations. Mechanisms: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512. Null or
no users mean all. RESOURCE_NOT_FOUND for a user without credentials, DUPLICATE_RESOURCE for one asked twice.
"""

from odradek.protocol.fields import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class UserName(Struct):
    name: str = field(STRING, "0+")


class DescribeUserScramCredentialsRequest(Message):
    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    users: list[UserName] | None = field(Array(UserName), "0+", nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = field(INT8, "0+")
    iterations: int = field(INT32, "0+")


class DescribeUserScramCredentialsResult(Struct):
    user: str = field(STRING, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    credential_infos: list[CredentialInfo] = field(Array(CredentialInfo), "0+")


class DescribeUserScramCredentialsResponse(Message):
    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field(Array(DescribeUserScramCredentialsResult), "0+")
