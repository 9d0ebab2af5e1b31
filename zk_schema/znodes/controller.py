"""/controller: the ephemeral znode whose owner is the controller. /controller_epoch: how many there have been."""

from dataclasses import dataclass

from odradek.zk_schema.znodes.json_data import INT32_BITS, Fields, dump, whole_number

CONTROLLER_PATH = "/controller"
CONTROLLER_EPOCH_PATH = "/controller_epoch"

INITIAL_CONTROLLER_EPOCH = 0
"""Value that `/controller_epoch` is created with: the first controller increments it to 1."""
NO_KRAFT_CONTROLLER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """Registration of the broker that is the controller.

    Version 0 (0.8.0): 1
    Version 1 (0.8.1): {"version":1,"brokerid":1,"timestamp":"2233345666"}
    Version 2 (3.4):   … "kraftControllerEpoch":-1

    Written in version 2. A KRaft epoch other than -1 is that of a KRaft controller in the middle of a migration.
    """

    broker_id: int
    timestamp_ms: int = 0
    kraft_controller_epoch: int = NO_KRAFT_CONTROLLER_EPOCH

    def encode(self) -> bytes:
        return dump(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_controller_epoch,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "ControllerRegistration":
        """Decode the controller's registration, of any version. Raises BadZnode."""
        if data.strip().isdigit():
            return cls(whole_number(CONTROLLER_PATH, data, INT32_BITS))
        fields = Fields(CONTROLLER_PATH, data)
        return cls(
            fields.integer("brokerid"),
            fields.long("timestamp", 0),
            fields.integer("kraftControllerEpoch", NO_KRAFT_CONTROLLER_EPOCH),
        )


def encode_controller_epoch(epoch: int) -> bytes:
    """Encode the controller epoch as plain decimal text."""
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    """Decode the controller epoch. Raises BadZnode."""
    return whole_number(CONTROLLER_EPOCH_PATH, data, INT32_BITS)
