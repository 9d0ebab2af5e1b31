"""Assignors: which member of a group reads which partition. Pure: the same input always gives the same assignment.

The leader of a group runs one of these; all members must offer its name. Members are sorted by instance id, those that
have one first, then by member id, as in Kafka, so that every client's leader decides alike. User data have Kafka's
format to the byte, so that members of other clients and ours keep their partitions whoever leads.

    assignment.py            what an assignor gets and returns     by_name.py  Kafka's assignors by name
    range_assignor.py        consecutive partitions of each topic  balance.py  the sticky assignors' distribution
    round_robin_assignor.py  one after another, in turn            racks.py    who has a replica in its own rack
    sticky_assignors.py      as few moves as possible
"""
