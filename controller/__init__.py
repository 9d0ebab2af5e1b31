"""The controller: the one broker of a cluster that elects the leaders of partitions.

- controller.py: the queue of events (events.py) and of requests (calls.py); flows.py: which flow handles which event
- controller_election.py: which broker is the controller; failover.py: what it does first
- active_controller.py: what each flow works on, one event at a time, and what is counted
- broker_changes.py: brokers that come and go; partition_machine.py: who leads then, written to ZooKeeper first and told
  to the brokers afterwards; first_states.py: new partitions
- replica_machine.py: replicas that begin, stop, or leave an ISR
- leader_and_isr_answers.py: replicas that brokers cannot open; refused_epochs.py: brokers that have obeyed a later
  controller
- isr_updates.py: changes of the ISR that leaders propose
- topic_changes.py, topic_deletion.py, reassignment.py, requested_elections.py, broker_shutdown.py, notifications.py,
  producer_id_blocks.py: the other flows
- topic_admin.py, assignment.py: topics as any broker creates and changes them, by znodes that the controller watches
- deletion_marks.py: topics as any broker has them deleted
- cluster_state.py: what it knows; controller_store.py: how it reads and writes ZooKeeper; decoded_znodes.py: what
  znodes hold
- request_batch.py: what brokers are to be told; channel_manager.py: how the requests reach them

A deposed controller is fenced twice: by controller_store.py, whose writes check `/controller_epoch`, and by each broker
(broker/replication/controller_requests.py).
"""
