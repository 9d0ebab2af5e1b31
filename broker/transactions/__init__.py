"""Transactions (KIP-98, KIP-890): the transaction coordinator, its markers, verification, and producer ids.

`transaction_state` has the rules of one transactional id, pure; `transaction_records` reads and writes it as records of
`__transaction_state`. The rest acts: `transaction_coordinator` serves the ids whose partitions this broker leads,
`transaction_markers` writes the ends of transactions to their partitions, `transaction_verification` asks coordinators
before a partition takes a transaction's first batch, `producer_ids` hands out ids from the controller's blocks.
"""
