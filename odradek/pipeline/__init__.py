"""A pipeline on Spark that ships: flights → departure delays per airport and day → a result topic, Parquet and a chart.

Every flight counts once in the results, whatever is killed meanwhile. Why that holds:

1. Spark writes the offsets of a micro-batch into the checkpoint before it reads them, and the sums of the micro-batches
   before into its state store. A micro-batch that is repeated after a crash has the same number, reads the same
   records, starts from the same sums, and so gives the same rows: all of them are whole numbers.
2. The result topic gets, per micro-batch, the new totals of every airport and day that has changed: a record per key,
   not a difference. They are written with the sink's `transactionalId`: readers of committed data see each micro-batch
   once and whole, and behind the one before (`client/spark/epochs.py` says why, whatever dies). The topic is compacted,
   which keeps the last record of a key, and that is the newest total.
3. What a killed driver or task had still on its way is of a transaction that is aborted: it is refused, or never seen.
4. Parquet: every micro-batch owns one directory and overwrites it as a whole; reading takes, per key, the row of the
   highest micro-batch (`totals.py`).

A new checkpoint is a new query with an id of its own; its totals replace those of older ones key by key.
"""
