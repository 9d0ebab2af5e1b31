"""/delegation_token/tokens/[id]: what is known of a delegation token. …/token_changes: which one changed."""

from dataclasses import dataclass

from odradek.zk_schema.znodes.configs import desanitize, sanitize
from odradek.zk_schema.znodes.json_data import Fields, dump

TOKENS_PATH = "/delegation_token/tokens"
TOKEN_CHANGES_PATH = "/delegation_token/token_changes"
TOKEN_CHANGE_PREFIX = f"{TOKEN_CHANGES_PATH}/token_change_"
"""Path, up to its number, of a sequential znode that holds nothing but the id of a token that changed."""


def token_path(token_id: str) -> str:
    return f"{TOKENS_PATH}/{token_id}"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token without its secret, which is computed from the id. Principals look like `User:alice`.

    Version 1 (1.1): {"version":1,"owner":"User%3Aalice","renewers":["User%3Abob"],"issueTimestamp":1,
                      "maxTimestamp":3,"expiryTimestamp":2,"tokenId":"id"}
    Version 2:       the same
    Version 3 (3.3): … "tokenRequester":"User%3Acarol"; before, the owner was the requester
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiry_timestamp_ms: int

    def encode(self) -> bytes:
        return dump(
            {
                "version": 3,
                "owner": sanitize(self.owner),
                "tokenRequester": sanitize(self.requester),
                "renewers": [sanitize(renewer) for renewer in self.renewers],
                "issueTimestamp": self.issue_timestamp_ms,
                "maxTimestamp": self.max_timestamp_ms,
                "expiryTimestamp": self.expiry_timestamp_ms,
                "tokenId": self.token_id,
            }
        )

    @classmethod
    def decode(cls, token_id: str, data: bytes) -> "DelegationToken":
        """Decode a delegation token, of any version. Raises BadZnode."""
        fields = Fields(token_path(token_id), data)
        owner = fields.text("owner")
        requester = fields.text("tokenRequester") if fields.version(1, 3) == 3 else owner
        return cls(
            token_id=fields.text("tokenId"),
            owner=desanitize(owner),
            requester=desanitize(requester),
            renewers=tuple(desanitize(str(renewer)) for renewer in fields.array("renewers")),
            issue_timestamp_ms=fields.long("issueTimestamp"),
            max_timestamp_ms=fields.long("maxTimestamp"),
            expiry_timestamp_ms=fields.long("expiryTimestamp"),
        )
