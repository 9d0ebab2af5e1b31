"""The controller: the one broker of a cluster that elects the leaders of partitions.

- controller_election.py: who is controller; failover.py: its first act; controller.py: its queue of events (events.py)
  and requests (calls.py); flows.py: which flow handles which event
- active_controller.py: what each flow works on, one event at a time, and what is counted
- broker_changes.py: a broker's coming and death; partition_machine.py: who leads then; ZooKeeper is told of it first,
  the brokers afterwards; first_states.py: new partitions
- replica_machine.py: replicas that begin, stop, or leave an ISR
- leader_and_isr_answers.py: replicas that brokers cannot open; refused_epochs.py: brokers that have obeyed a later
  controller
- isr_updates.py: what leaders want their in-sync replicas to be
- topic_changes.py, topic_deletion.py, reassignment.py, requested_elections.py, broker_shutdown.py, notifications.py,
  producer_id_blocks.py: the other flows
- topic_admin.py, assignment.py: what any broker may ask of it, by znodes
- cluster_state.py: what it knows; controller_store.py: how it reads and writes ZooKeeper; decoded_znodes.py: what
  znodes hold
- request_batch.py: what brokers are to know; channel_manager.py: how it comes to them

A deposed controller is fenced twice: by controller_store.py, whose writes check `/controller_epoch`, and by each broker
(broker/replication/controller_requests.py).
"""
