"""Transactions (KIP-98, KIP-890).

Rules, pure: `transaction_state` (one transactional id). `transaction_records`: between it and the bytes of
`__transaction_state`. Shells: `transaction_coordinator` (the ids that live here), `transaction_markers` (the ends of
transactions to their partitions), `transaction_verification` (asked before a transaction's first batch is taken),
`producer_ids` (blocks of ids from the controller).
"""
