"""The controller: the one broker of a cluster that elects the leaders of partitions.

- controller_election.py: who is controller; failover.py: its first act; controller.py: its queue of events
- broker_changes.py: a broker's coming and death; partition_machine.py: who leads then; ZooKeeper is told of it first,
  the brokers afterwards
- isr_updates.py: what leaders want their in-sync replicas to be
- topic_changes.py, topic_deletion.py, reassignment.py, requested_elections.py, broker_shutdown.py: the other flows
- cluster_state.py: what it knows; controller_store.py, channel_manager.py: how it writes to ZooKeeper and to brokers

A deposed controller is fenced twice: by controller_store.py, whose writes check `/controller_epoch`, and by each broker
(broker/replication/controller_requests.py).
"""
