"""Compaction: of each key the newest record stays. What is dirty is rewritten in a child process and swapped in.

scheduler           which log is next; cleanable_offsets: how much of it is dirty, and whether it pays
job                 the compaction of one log, as the loop sees it: what is ready is swapped in
messages            what loop and child tell each other
rewrite             the child: segments are read, filtered and written anew
offset_map          key → offset of its newest record; filter: what is left of a batch
"""
