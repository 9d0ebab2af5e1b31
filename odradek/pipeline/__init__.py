"""A pipeline on Spark that ships: flights → departure delays per airport and day → a result topic, Parquet and a chart.

Every flight counts once in the results, whatever is killed meanwhile. Why that holds:

1. Spark writes the offsets of a micro-batch into the checkpoint before it reads them, and the sums of the micro-batches
   before into its state store. A micro-batch that is repeated after a crash has the same number, reads the same
   records, starts from the same sums, and so gives the same rows: all of them are whole numbers.
2. The result topic gets, per micro-batch, the new totals of every airport and day that has changed: a record per key,
   not a difference. Each record says which query and which micro-batch it is of. After a start, the sink reads the
   topic before it writes for the first time and leaves out what the killed driver had written already
   (`result_topic.py`). Retries of single requests are the idempotent producer's business.
3. A request of the killed driver may still reach a broker after the topic was read. It then repeats a record with the
   same content, or comes late; whoever reads takes, per key, the record of the highest micro-batch.
4. Parquet: every micro-batch owns one directory and overwrites it as a whole; reading takes, per key, the row of the
   highest micro-batch (`parquet.py`).

A new checkpoint is a new query with an id of its own; its totals replace those of older ones key by key.
"""
