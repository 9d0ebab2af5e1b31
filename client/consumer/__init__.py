"""The consumer of groups that brokers coordinate, and what it shares with the ConsumerConnector and the Spark source.

Two threads: the application's, in the methods of KafkaConsumer, and a loop. They meet in shared.py.

    client.py         KafkaConsumer, the face          participation.py  the application's part in its group
    subscription.py   what it wants to read            listener.py       what it is told of rebalances
    buffer.py         what `poll` hands out            shared.py         positions, fetched bytes, an error to raise

    engine.py         the loop                         positions.py      where it is in each partition
    locating.py       finds where to start             fetcher.py        sends fetches and keeps what comes
    fetching.py       which fetches to send            verdicts.py       what their answers mean
    chunks.py         fetched bytes as records         commits.py        offsets, in order

    group.py          carries out a membership         membership.py     one member, step by step
    member_states.py  its tables                       steps.py          what it asks others to do
    group_requests.py its requests                     embedded.py       what members tell each other in them
    assignors.py      who reads what                   config.py         settings

Pure, values in and values out: subscription, positions, fetching, verdicts, chunks, membership and all below it.
"""
