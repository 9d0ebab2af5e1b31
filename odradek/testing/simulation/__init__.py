"""A whole cluster with clients and faults on virtual time, from one seed.

    run.py          one run: faults for a while, then calm, then the verdict (verdict.py)
    plans.py        what is decided before it, and the faults that befell it, to be played again
    shrinking.py    a run that fails, cut down until one can read it
    history.py      the run as clients see it: what they were told, what they read, what went wrong

Who uses the cluster: clients, connectors (whose group is balanced in ZooKeeper), old_clients, transactions, loose_topic
(which may lose records), administration. unusual_settings are what half of the runs have of brokers and clients.

Faults, by what they befall: faults (brokers and the network), disk_faults, bit_rot, zookeeper_faults, client_faults;
operations (what operators do), repeated_requests, stale_requests. Those that wait for their moment: awkward_moments,
cut_moments, transaction_moments, under_way_moments, request_moments, producer_id_moments, transactions_by_hand.
directing leads brokers there without chance.

Watchers, which look again and again at what must hold at every moment:

    safety                  what replication promises, and its rules for states in ZooKeeper
    inspection              offsets and batches in the logs, committed ones above all, and what compaction keeps
    derived_state           what a replica knows of producers and epochs is what its batches say
    fences, group_members   epochs never fall; members of one generation share nothing, and nobody stays who is gone
    coordinators, decisions they tell nothing that is not replicated, and send no markers of it
    transactional_positions what is committed
    liveness                nobody lags in the ISR, waits or asks for longer than there is a reason
"""
