"""Files of `odradek up --secure`: an authority, certificates of brokers, users with passwords, files for clients.

Everything stands in DIR/security, readable by its owner alone, and is kept: the next `up --secure` uses it again. The
users are `broker`, as which the brokers log in to each other, `admin`, who may do anything, and `client`, who may use
all topics, groups and transactions but administer nothing.
"""

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from odradek.broker.security.acl_store import AclStore
from odradek.broker.security.acls import CLUSTER_NAME, Acl, AclOperation, AclPermission
from odradek.broker.settings.properties import property_line
from odradek.local.broker_files import HOST
from odradek.local.processes import alone
from odradek.security.authority import Authority
from odradek.security.errors import BadSecuritySetting
from odradek.security.key_stores import KeyPair, StoreSettings, load_key_pair
from odradek.security.scram import (
    LEAST_ITERATIONS,
    MECHANISMS,
    SALT_BYTES,
    decode_credential,
    encode_credential,
    new_credential,
)
from odradek.world.clock import Clock
from odradek.zk_schema.entity_settings import change_entity, stored_settings
from odradek.zk_schema.store import Store
from odradek.zk_schema.znodes.acls import ResourcePattern, ResourceType
from odradek.zk_schema.znodes.configs import USERS, sanitize

BROKER, ADMIN, CLIENT = "broker", "admin", "client"
USER_NAMES = (BROKER, ADMIN, CLIENT)
MECHANISM = "SCRAM-SHA-512"
PASSWORD_BYTES = 24
RENEWED_BEFORE = timedelta(days=60)
"""Time that a broker's certificate must still be valid when a cluster starts; otherwise it is made anew."""
LISTENER = "SASL_SSL"
LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
CLIENTS_RIGHTS = {
    ResourcePattern(ResourceType.TOPIC, "*"): (AclOperation.ALL,),
    ResourcePattern(ResourceType.GROUP, "*"): (AclOperation.ALL,),
    ResourcePattern(ResourceType.TRANSACTIONAL_ID, "*"): (AclOperation.ALL,),
    ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME): (AclOperation.DESCRIBE, AclOperation.IDEMPOTENT_WRITE),
}


@dataclass(frozen=True, slots=True)
class SecureFiles:
    """The folder, and the users' passwords."""

    directory: Path
    passwords: Mapping[str, str]
    token_key: str
    """Key with which brokers sign delegation tokens."""

    def __repr__(self) -> str:
        return f"SecureFiles({self.directory})"

    @classmethod
    def make(cls, directory: Path, brokers: int) -> "SecureFiles":
        """Make the files that are missing, and renew a broker's certificate that soon expires. Raises OSError, and
        BadSecuritySetting for files that are damaged."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone(directory):  # two at once would make two authorities, and leave files of both
            authority = _authority(directory)
            for number in range(brokers):
                path = directory / f"broker-{number}.pem"
                if not path.exists() or _soon_expires(path, authority):
                    pair = authority.issue(f"broker-{number}", hosts=["localhost", HOST, "::1", f"broker-{number}"])
                    write_private(path, pair.chain_pem() + pair.key_pem())
            files = cls(directory, _passwords(directory / "users.json"), _token_key(directory / "token-key"))
            for user in (ADMIN, CLIENT):
                files._write_client_files(user)
        return files

    def broker_settings(self, number: int, port: int) -> dict[str, str]:
        """Return the lines of one broker's properties file that differ when the cluster is secured."""
        return {
            "listeners": f"{LISTENER}://{HOST}:{port}",
            "security.inter.broker.protocol": LISTENER,
            "ssl.keystore.location": str(self.directory / f"broker-{number}.pem"),
            **self.common_settings((LISTENER.lower(),)),
        }

    def common_settings(self, listeners: Iterable[str]) -> dict[str, str]:
        """Return the security settings that all brokers share, for listeners of these names in small letters."""
        return {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            **{f"listener.name.{one}.{MECHANISM.lower()}.sasl.jaas.config": self._jaas(BROKER) for one in listeners},
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "ca.pem"),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{BROKER};User:{ADMIN}",
            "delegation.token.secret.key": self.token_key,
        }

    def client_settings(self, user: str) -> dict[str, str]:
        """Return the settings of a client that logs in as `user`, by Kafka's names."""
        return {
            "security.protocol": LISTENER,
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": self._jaas(user),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "ca.pem"),
        }

    async def write_to(self, store: Store, clock: Clock) -> tuple[str, ...]:
        """Write users and access lists into a ZooKeeper that has none of them yet, before a broker starts.

        Later only the password of `broker` is put right, without which no broker could log in: whoever was deleted,
        given another password or other rights since then stays so, and settings of users are kept, quotas say.
        Returns the users whose passwords in ZooKeeper are no longer those in users.json. Raises StoreError.
        """
        is_new = not (await self._credentials(store, BROKER)).keys() & set(MECHANISMS)
        if is_new:
            for user in (ADMIN, CLIENT):
                await self._write_credentials(store, user)
            acls = AclStore(store, clock)
            await acls.create_paths()
            for pattern, operations in CLIENTS_RIGHTS.items():
                lines = {Acl(f"User:{CLIENT}", "*", one, AclPermission.ALLOW) for one in operations}
                await acls.update(pattern, lambda found, lines=lines: found | lines)  # type: ignore[misc]
        if not await self._fits(store, BROKER):
            await self._write_credentials(store, BROKER)  # the last: once it is there, everything is
        return tuple([user for user in (ADMIN, CLIENT) if not await self._fits(store, user)])

    async def _credentials(self, store: Store, user: str) -> dict[str, str]:
        return await stored_settings(store, f"{USERS}/{sanitize(user)}")

    async def _write_credentials(self, store: Store, user: str) -> None:
        settings = {
            mechanism: encode_credential(
                new_credential(mechanism, self.passwords[user], secrets.token_bytes(SALT_BYTES), LEAST_ITERATIONS)
            )
            for mechanism in MECHANISMS
        }
        found = await self._credentials(store, user)
        await change_entity(store, f"{USERS}/{sanitize(user)}", {**found, **settings})

    async def _fits(self, store: Store, user: str) -> bool:
        """Tell whether the password in users.json is the one that ZooKeeper has, by the mechanism of the files."""
        try:
            found = decode_credential((await self._credentials(store, user)).get(MECHANISM, ""))
        except ValueError:
            return False
        return found == new_credential(MECHANISM, self.passwords[user], found.salt, found.iterations)

    def _jaas(self, user: str) -> str:
        return f'{LOGIN_MODULE} required username="{user}" password="{self.passwords[user]}";'

    def _write_client_files(self, user: str) -> None:
        settings = self.client_settings(user)
        lines = "".join(property_line(name, text) for name, text in settings.items())
        write_private(self.directory / f"{user}.properties", lines.encode())
        rdkafka = {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": self.passwords[user],
            "ssl.ca.location": settings["ssl.truststore.location"],
        }
        lines = "".join(f"{name}={text}\n" for name, text in rdkafka.items())
        write_private(self.directory / f"{user}.librdkafka", lines.encode())
        python = {
            "security_protocol": LISTENER,
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": user,
            "sasl_plain_password": self.passwords[user],
            "ssl_cafile": settings["ssl.truststore.location"],
        }
        text = "".join(f"    {name!r}: {value!r},\n" for name, value in python.items())
        write_private(self.directory / f"{user}.py", f"settings = {{\n{text}}}\n".encode())


def write_private(path: Path, data: bytes) -> None:
    """Write a file that its owner alone may read, from its first byte on, whole or not at all."""
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    unfinished.rename(path)


def _authority(directory: Path) -> Authority:
    key_path, certificate_path = directory / "ca-key.pem", directory / "ca.pem"
    if key_path.exists() and certificate_path.exists():
        found: KeyPair = load_key_pair(
            StoreSettings("keystore", "PEM", str(certificate_path), key_location=str(key_path))
        )
        return Authority(pair=found)
    authority = Authority()
    write_private(key_path, authority.pair.key_pem())
    write_private(certificate_path, authority.pair.chain_pem())
    return authority


def _soon_expires(path: Path, authority: Authority) -> bool:
    """Tell whether a certificate, of ours and not one that somebody has put there, is as good as refused."""
    certificate = load_key_pair(StoreSettings("keystore", "PEM", str(path))).chain[0]
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    return left < RENEWED_BEFORE and certificate.issuer == authority.certificate.subject


def _passwords(path: Path) -> dict[str, str]:
    if not path.exists():
        made = {user: secrets.token_urlsafe(PASSWORD_BYTES) for user in USER_NAMES}
        write_private(path, json.dumps(made, indent=1).encode())
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(found.get(user), str) for user in USER_NAMES):
        raise BadSecuritySetting(path.name, f"these are not the passwords of {', '.join(USER_NAMES)}")
    return found


def _token_key(path: Path) -> str:
    if not path.exists():
        write_private(path, secrets.token_urlsafe(PASSWORD_BYTES).encode())
    key = path.read_bytes().decode(errors="replace").strip()
    if not key:
        raise BadSecuritySetting(path.name, "it is empty")
    return key
