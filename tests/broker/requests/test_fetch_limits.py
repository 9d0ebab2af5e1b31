"""What a Fetch brings of several partitions when its limits do not suffice for all (KIP-74)."""

import pytest

from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.testing.askers import Asker, with_topic


@pytest.mark.parametrize("version", range(3, 18))
@pytest.mark.parametrize("limits", [(1.5, 9.0), (9.0, 0.5)], ids=["max_bytes", "partition_max_bytes"])
def test_a_part_of_a_batch_is_never_alone(version: int, limits: tuple[float, float]) -> None:
    """Kafka's consumers end with it: `Failed to make progress reading messages`."""

    async def scenario(asker: Asker) -> None:
        of_answer, of_partition = (int(asker.partition(0).log.size_bytes * one) for one in limits)
        asked = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=of_partition) for index in (0, 1)]
        topic = FetchTopic(topic="t", topic_id=asker.partition(0).topic_id, partitions=asked)
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=of_answer, topics=[topic])
        (answered,) = (await asker.ask(request, version)).responses
        first, second = answered.partitions
        assert first.records and (second.error_code, second.records) == (0, b"")

    with_topic(scenario)
