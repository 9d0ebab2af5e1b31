"""Group coordination: the members of consumer groups, their generations, and the offsets that they have committed.

Rules, pure: `group_state_machine` (what a request may do) over `rebalance` (the next generation) and `static_members`,
with the facts and the table of states in `group_metadata`, and the effects that they ask for in `group_effects` and
`outbox`; `group_offsets` (commits and their expiry).
`group_records`: between these and the bytes of `__consumer_offsets`; `unwritten_tombstones`: those for which a full
disk has no room.
Shells: `group` (timers, appends and answers of one group), `group_coordinator` (which groups are served here).
"""
