"""Kafka's wire protocol: bytes in, values out. Uses no socket, no clock, and no other package of this project.

messages                requests and responses, one file for each API; a message is a class with a line for each field
fields, primitives      types of such fields; their encoding as bytes
codec                   encodes and decodes messages by functions whose source encoder_source and decoder_source write
headers                 headers of requests and responses, and the classes that belong to an API key
connection              the client's side of a connection, without the socket; fetch_session: that of a fetch session
errors, topic_names     error codes and their exceptions; names of topics and partitions

Records, in record batches (format v2):

record_batch            a batch without its records: header and checksum (checksum)
records                 its records by columns; record_runs: many records of one layout, decoded together
record_filter           keys of a batch's records, and a batch without some of them, for compaction
records_in_steps        many records, a step at a time (steps)
control_records         records that brokers write between those of producers
compression             codecs; lz4_frame: Kafka's old mistake in one of them

message_set             the two older formats; conversion: from and to them
"""
