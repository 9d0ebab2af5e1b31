"""The producer. In the order to read it, from `send` to the acknowledgement:

    client.py           KafkaProducer, the blocking form (on asyncio it is client/aio/producer.py)
    intake.py           what every `send` does, without waiting; send_waits.py: what it may have to wait for
    partitioners.py     which partition a record goes to
    accumulator.py      records that wait to be sent, as batches (batch.py) by partition
    sender.py           what to send now, and what an answer means; produce_requests.py: the same on the wire
    sequences.py        the producer's id and the numbers of its batches, by which brokers know a batch again
    engine.py           carries out on a loop what the sender plans

    transaction.py      a producer's transactions: what it may do now; transaction_contents.py: what one has in it
    transaction_driver.py    asks the coordinators, by transaction_requests.py

    bulk.py             records by the thousand, as columns
    interceptors.py     what applications hook in          config.py    settings

Without I/O, values in and values out: accumulator, partitioners, sender, sequences, produce_requests, transaction and
transaction_requests.
"""
