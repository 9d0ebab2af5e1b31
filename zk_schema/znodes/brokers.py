"""/brokers/ids/[id]: one ephemeral znode for each living broker. /brokers/seqid: where broker ids are counted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from odradek.zk_schema.znodes.json_data import INT32_BITS, Fields, dump, fits_in, number_named

BROKER_IDS_PATH = "/brokers/ids"
BROKER_SEQUENCE_ID_PATH = "/brokers/seqid"
"""Path of an empty znode: a write returns its version, which is the next broker id above `reserved.broker.max.id`."""

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Names of security protocols; before version 4 listeners have these names, too."""

PORT_MAX = 65_535


def broker_ids(names: Iterable[str]) -> set[int]:
    """Return the ids that children of BROKER_IDS_PATH name; other names were put there by hand, and are no broker's."""
    return {number for name in names if (number := number_named(name)) is not None}


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS_PATH}/{broker_id}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address at which clients find one listener of a broker."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    @property
    def address(self) -> str:
        """Address as `host:port`, an IPv6 one in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Endpoint as Kafka writes it: `LISTENER://host:port`."""
        return f"{self.listener}://{self.address}"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """Registration of a broker: what it tells the cluster about itself.

    Version 1 (0.8):    {"version":1,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2233345666"}
    Version 2 (0.9):    … "endpoints":["PLAINTEXT://host1:9092","SSL://host1:9093"]
    Version 3 (0.10):   … "rack":"dc1"
    Version 4 (0.10.2): … "listener_security_protocol_map":{"CLIENT":"SSL","REPLICATION":"PLAINTEXT"},
                          "endpoints":["CLIENT://host1:9092","REPLICATION://host1:9093"]
    Version 5 (2.7):    … "features":{"feature":{"min_version":1,"max_version":3}}

    `host` and `port` stay for old clients: the first PLAINTEXT endpoint's, or null and -1. Written in version 5.
    """

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    jmx_port: int = -1
    timestamp_ms: int = 0
    """Wall clock when the broker registered; nothing is decided by it."""
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return broker_path(self.broker_id)

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the endpoint of the named listener; None if the broker does not have it."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)

    @property
    def holder(self) -> str:
        """Addresses of the broker, for messages to people."""
        return ", ".join(endpoint.address for endpoint in self.endpoints) or "no address"

    def encode(self) -> bytes:
        plain = next((endpoint for endpoint in self.endpoints if endpoint.security_protocol == "PLAINTEXT"), None)
        rack = {} if self.rack is None else {"rack": self.rack}
        return dump(
            {
                "listener_security_protocol_map": {at.listener: at.security_protocol for at in self.endpoints},
                "endpoints": [endpoint.url for endpoint in self.endpoints],
                **rack,
                "jmx_port": self.jmx_port,
                "features": {name: dict(levels) for name, levels in self.features.items()},
                "host": plain.host if plain else None,
                "timestamp": str(self.timestamp_ms),
                "port": plain.port if plain else -1,
                "version": 5,
            }
        )

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> "BrokerRegistration":
        """Decode any version from 1 on: Kafka adds fields and takes none away. Raises BadZnode."""
        fields = Fields(broker_path(broker_id), data)
        if not fits_in(broker_id, INT32_BITS):
            raise fields.bad("no broker has this number")
        version = fields.integer("version")
        if version < 1:
            raise fields.bad(f"version {version} cannot be read")
        endpoints: tuple[Endpoint, ...]
        if version == 1:
            endpoints = (Endpoint("PLAINTEXT", fields.text("host"), fields.integer("port")),)
        else:
            endpoints = _decode_endpoints(fields)
        return cls(
            broker_id,
            endpoints,
            rack=fields.text("rack") if "rack" in fields else None,
            jmx_port=fields.integer("jmx_port", -1),
            timestamp_ms=fields.long("timestamp", 0),
            features=fields.mapping("features"),
        )


def _decode_endpoints(fields: Fields) -> tuple[Endpoint, ...]:
    protocols = fields.mapping("listener_security_protocol_map") or {name: name for name in SECURITY_PROTOCOLS}
    return tuple(_decode_endpoint(fields, url, protocols) for url in fields.array("endpoints"))


def _decode_endpoint(fields: Fields, url: object, protocols: Mapping[str, str]) -> Endpoint:
    listener, separator, address = str(url).partition("://")
    host, colon, port = address.rpartition(":")
    listener = listener.upper()
    protocol = protocols.get(listener, "")
    number = number_named(port)
    if not separator or not colon or number is None or number > PORT_MAX or protocol not in SECURITY_PROTOCOLS:
        raise fields.bad(f"{str(url)[:200]!r} is not an endpoint")
    return Endpoint(listener, host.removeprefix("[").removesuffix("]"), number, protocol)
