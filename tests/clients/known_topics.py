"""Topics that every broker of a cluster knows."""

from functools import partial

from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.patience import wait_until


def known_everywhere(bootstrap: str, topic: str, partitions: int) -> None:
    """Wait until every broker knows a topic, its number of partitions and their leaders; 0 when it is gone.

    They learn of it one after another, and a client asks any of them.
    """
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)

    def known(address: str) -> bool:
        with RawConnection(address) as connection:
            found = connection.ask(asked, 4).topics[0].partitions
        return len(found) == partitions and all(one.leader_id >= 0 for one in found)

    for address in bootstrap.split(","):
        wait_until(partial(known, address), f"{topic} with {partitions} partitions at {address}")
