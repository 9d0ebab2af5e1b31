"""Rights of the sender of one request: the questions that request handlers ask of the authorizer."""

from collections import Counter
from collections.abc import Iterable

from odradek.broker.security.acls import CLUSTER_NAME, OPERATIONS_ON, AclOperation, bits
from odradek.broker.security.authorizer import AclAuthorizer
from odradek.broker.security.principal import KafkaPrincipal
from odradek.zk_schema.znodes.acls import ResourceType


class Rights:
    """A principal at one host, asking by one request (Kafka's AuthHelper)."""

    __slots__ = ("_authorizer", "_host", "_principal", "_request")

    def __init__(self, authorizer: AclAuthorizer, principal: KafkaPrincipal, host: str, request: str) -> None:
        self._authorizer, self._principal, self._host, self._request = authorizer, principal, host, request

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str, *, quietly: bool = False) -> bool:
        """Tell whether the client may do that. `quietly`: a denial is nothing that anybody has tried."""
        return self._authorizer.authorize(
            self._principal, self._host, operation, resource_type, name, self._request, log_if_denied=not quietly
        )

    def may_with_cluster(self, operation: AclOperation, *, quietly: bool = False) -> bool:
        """Tell whether the client may do that with the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, quietly=quietly)

    def may_with_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Tell whether the client may do that with some resource of that type, perhaps (KIP-679)."""
        return self._authorizer.authorize_by_type(self._principal, self._host, operation, resource_type, self._request)

    def allowed(
        self, operation: AclOperation, resource_type: ResourceType, names: Iterable[str], *, quietly: bool = False
    ) -> set[str]:
        """Keep the names with which the client may do that. Each is asked for once, however often it is named."""
        return {
            name
            for name, times in Counter(names).items()
            if self._authorizer.authorize(
                self._principal, self._host, operation, resource_type, name, self._request,
                log_if_denied=not quietly, references=times,
            )
        }  # fmt: skip

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Collect everything that is allowed on a resource, as a set of bits (KIP-430)."""
        return bits(
            {
                operation
                for operation in OPERATIONS_ON[resource_type]
                if self._authorizer.authorize(
                    self._principal, self._host, operation, resource_type, name, self._request,
                    log_if_allowed=False, log_if_denied=False,
                )
            }
        )  # fmt: skip
