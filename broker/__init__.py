"""A broker of a cluster that ZooKeeper holds together. docs/architecture.md has the ways through it; the files here put
one broker together and give it its life:

process           one broker as a process: settings, world, signals
server            what is started in which order, and how it ends
assembly          makes the parts and hands them to each other; services: those of them that request handlers use
listeners         what is bound, advertised and secured
config            settings as typed values; dynamic_config: what ZooKeeper says of them; setting_changes: who obeys
world             the outside of a broker: clock, files, network, ZooKeeper

A request goes from network through requests to replication, groups or transactions (which share coordination), and on
to log; what waits, waits in purgatory. cluster is this broker among the others; security and quotas say what clients
may; settings is the table of settings; metrics is counted everywhere, and monitoring shows it.
"""
