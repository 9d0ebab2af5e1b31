"""The wire: bytes in, values out. Knows no socket, no clock and nothing of ours.

messages                each API's request and response, a file each; a message is a class with a line for each field
fields, primitives      what such a line may say; the numbers below it
codec                   encodes and decodes messages by functions that encoder_source and decoder_source write
headers                 which message a frame holds
connection              a client's side of a connection without the socket; fetch_session: of a fetch session
errors, topic_names     error codes and their exceptions; names that everybody uses

Records, in the batches of today (v2):

record_batch            a batch from outside: header and checksum (checksum)
records                 its records by columns; record_runs: those that are laid out alike, together
record_filter           which of its records stay
records_in_steps        many records, a step at a time (steps)
control_records         what brokers write between the records
compression             codecs; lz4_frame: Kafka's old mistake with one of them

message_set             the two formats before; conversion: from and to them
"""
