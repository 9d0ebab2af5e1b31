"""How much of a broker's memory its garbage collector looks at in one piece, for which the loop stands still."""

import gc

from odradek.broker.__main__ import GC_THRESHOLDS
from odradek.protocol.codec import decode, encode
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.testing.forked import in_a_child

AT_ONCE = 20_000


def test_the_metadata_of_ten_thousand_partitions_are_looked_at_in_small_parts() -> None:
    """Eighty thousand objects were looked at in one piece, for up to fifty milliseconds."""
    states = [UpdateMetadataPartitionState(partition_index=i, isr=[0, 1], replicas=[0, 1]) for i in range(10_000)]
    request = UpdateMetadataRequest(topic_states=[UpdateMetadataTopicState(topic_name="t", partition_states=states)])
    data = encode(request, 8)

    def largest() -> str:
        looked_at = [0]

        def called(phase: str, info: dict[str, int]) -> None:
            if phase == "start":
                looked_at.append(sum(len(gc.get_objects(one)) for one in range(info["generation"] + 1)))

        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.callbacks.append(called)
        gc.enable()
        kept = [decode(UpdateMetadataRequest, 8, data) for _ in range(3)]
        return f"{len(kept)} requests, {sum(looked_at) > AT_ONCE}, {max(looked_at) <= AT_ONCE}"

    assert in_a_child(largest) == "3 requests, True, True"
