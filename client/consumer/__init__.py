"""The consumer, whose groups brokers coordinate, and what it shares with the ConsumerConnector and the Spark source.

It runs on an event loop. A blocking consumer's loop is on a thread of its own; the application's thread and the loop
meet in `buffer.Shared`. On asyncio the consumer is client/aio/consumer.py.

    client.py           KafkaConsumer, the blocking form      config.py         settings
    participation.py    the application's part in its group   subscription.py   what the application wants to read

    engine.py           the loop, and where to start          positions.py      the position in each partition
    fetcher.py          sends fetches, passes on the answers  fetch_requests.py which fetches, what answers mean
    buffer.py           what `poll` hands out                 chunks.py         fetched bytes as records

    group_driver.py     carries out a membership's steps      membership.py     one member, step by step
    member_states.py    its tables and its steps              group_protocol.py its requests, the bytes inside them
    commits.py          commits offsets, in order             assignors/        which member reads which partition

Without I/O, values in and values out: subscription, positions, fetch_requests, chunks, membership, member_states,
group_protocol and assignors.
"""
