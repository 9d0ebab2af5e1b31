"""Group coordination: who is in a group, what generation is in force, which offsets it has committed.

Rules, pure: `group_state_machine` (what a request may do) over `rebalance` (the next generation) and `static_members`,
with the facts and the table of states in `group_metadata` and what they ask for in `group_effects`; `group_offsets`
(commits and their expiry).
`group_records`: between these and the bytes of `__consumer_offsets`.
Shells: `group` (timers, appends and answers of one group), `group_coordinator` (which groups are served here).
"""
