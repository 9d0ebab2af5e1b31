"""A program with a ConsumerConnector, for tests: prints what it reads, `partition offset value`, until SIGTERM.

python reading_process.py ZOOKEEPER GROUP TOPIC STREAMS STRATEGY
"""

import signal
import sys
import threading

from odradek import ConsumerConnector
from odradek.client.zookeeper.streams import MessageStream


def main() -> None:
    zookeeper, group, topic, count, strategy = sys.argv[1:]
    connector = ConsumerConnector.create(
        zookeeper_connect=zookeeper,
        group_id=group,
        partition_assignment_strategy=strategy,
        auto_offset_reset="smallest",
        zookeeper_session_timeout_ms=6_000,
        rebalance_backoff_ms=500,
        rebalance_max_retries=100,  # on a busy machine others are slow to give up what they own
        auto_commit_interval_ms=100,
    )
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=connector.shutdown).start())
    streams = connector.create_message_streams({topic: int(count)})[topic]
    print("ready", connector.consumer_id, flush=True)

    def read(stream: MessageStream) -> None:
        for message in stream:
            # One write for each line: the streams' threads must not mix theirs.
            sys.stdout.write(f"{message.partition} {message.offset} {message.value.decode()}\n")
            sys.stdout.flush()

    threads = [threading.Thread(target=read, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
