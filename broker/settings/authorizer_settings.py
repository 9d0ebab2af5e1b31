"""Settings of who may do what."""

from dataclasses import dataclass
from typing import Final

from odradek.broker.settings.definition import read_table, setting


@dataclass(frozen=True, kw_only=True)
class AuthorizerSettings:
    """The authorizer, and who needs none."""

    authorizer_class_name: str = setting(
        "string '' {,kafka.security.authorizer.AclAuthorizer} low read-only",
        "Class that decides who may do what: kafka.security.authorizer.AclAuthorizer; empty: everybody may do "
        "everything.",
    )
    super_users: str = setting(
        "string '' any medium read-only internal",
        "Principals that may do everything: User:name, separated by semicolons.",
    )
    allow_everyone_if_no_acl_found: bool = setting(
        "boolean false any medium read-only internal",
        "Whether everybody may use a resource that has no access list.",
    )


OTHER_AUTHORIZER_SETTINGS: Final = read_table("""
authorizer.zookeeper.url string - any low read-only refused
    ZooKeeper of the access lists. | access lists are kept in the cluster's own ZooKeeper
""")
