"""The transaction coordinator (KIP-98): one transactional id's rules are in `transaction`, their carrying out in
`coordinator`; `records` and `replay` are what the log of `__transaction_state` holds of them."""
