"""The pipeline on Spark: flights → departure delays per airport and day → a result topic, Parquet and a chart.

Every flight counts exactly once in the results, whatever is killed meanwhile. Why that holds:

1. Spark writes the offsets of a micro-batch to the checkpoint before it reads them, and the sums of earlier
   micro-batches to its state store. A micro-batch that is repeated after a crash has the same number, reads the same
   records, starts from the same sums, and so gives the same rows: all of them are whole numbers.
2. The result topic gets, per micro-batch, the new totals of every airport and day that has changed: a record per key,
   not a difference. They are written with the sink's `transactionalId`, so that readers of committed data see each
   micro-batch once, as a whole, and after the one before (`client/spark/epochs.py` says why). The topic is compacted,
   which keeps the last record of each key, and that is the newest total.
3. Records that a killed driver or task had on the way belong to an aborted transaction: they are refused or never seen.
4. Parquet: every micro-batch has a directory of its own, and overwrites it as a whole; reading takes, per key, the row
   of the highest micro-batch (`totals.py`).

A new checkpoint is a new query with an id of its own; its totals replace those of older queries key by key.
"""
