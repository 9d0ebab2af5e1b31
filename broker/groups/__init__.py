"""Group coordination: who is in a group, what generation is in force, which offsets it has committed.

Pure: `membership` (requests) over `rebalance` and `static_members`, with the facts in `roster` and the answers in
`effects`; `offsets` and `expiry`; `records` and `replay` between these and the bytes of `__consumer_offsets`.
Shells: `live_group` (timers, storage, answers of one group), `ownership` (partitions, loading), `coordinator`.
"""
