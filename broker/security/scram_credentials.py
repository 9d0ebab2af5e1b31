"""SCRAM credentials of all users: what a listener with SCRAM checks its clients against."""

import logging
from collections.abc import Mapping

from odradek.security.scram import MECHANISMS, ScramCredential, ScramIdentity, decode_credential

log = logging.getLogger(__name__)


class Credentials:
    """SCRAM credentials of all users, in memory (Kafka's CredentialCache).

    ZooKeeper has them in /config/users/<user>, one setting for each mechanism (KIP-84).
    """

    def __init__(self) -> None:
        self._credentials: dict[tuple[str, str], ScramCredential] = {}

    def set_user(self, user: str, settings: Mapping[str, str]) -> None:
        """Take note of all settings that a user has now; what cannot be read lets nobody in."""
        for mechanism in MECHANISMS:
            self._credentials.pop((mechanism, user), None)
            text = settings.get(mechanism)
            if text is None:
                continue
            try:
                self._credentials[mechanism, user] = decode_credential(text)
            except ValueError as error:
                log.error("user %s cannot log in with %s: %s", user, mechanism, error)

    def find(self, mechanism: str, user: str) -> ScramIdentity | None:
        """Return the identity by which `user` may log in with `mechanism`; None when there is no credential for it."""
        credential = self._credentials.get((mechanism, user))
        return None if credential is None else ScramIdentity(credential, user)
