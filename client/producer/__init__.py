"""The producer. In the order to read it, from `send` to the acknowledgement:

    client.py           KafkaProducer, the blocking form (on asyncio it is client/aio/producer.py)
    intake.py           what every `send` does, without waiting; send_waits.py: what it may have to wait for
    partitioners.py     which partition a record goes to
    accumulator.py      records that wait to be sent, as batches (batch.py) by partition
    sender.py           what to send now, and what an answer means; produce_requests.py: the same on the wire
    sequences.py        the producer's id and the sequence numbers by which brokers recognise a repeated batch
    engine.py           carries out the sender's plans on the event loop

    transaction.py      a producer's transactions: which call is allowed when, what the coordinator has confirmed
    transaction_contents.py  adds partitions and offsets to a transaction
    transaction_driver.py    begins and ends transactions; transaction_requests.py: the requests for both

    bulk.py             records by the thousand, as columns
    interceptors.py     what applications hook in
    config.py           settings

Without I/O, values in and values out: accumulator, partitioners, sender, sequences, produce_requests, transaction and
transaction_requests.
"""
