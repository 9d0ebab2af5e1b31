"""Group coordination: who is in a group, what generation is in force, which offsets it has committed.

`membership` is the state machine (values in, effects out), `offsets` the table of one group's commits, `records` their
form in `__consumer_offsets`, `loading` the way back from there, `coordinator` the shell that owns timers and storage.
"""
