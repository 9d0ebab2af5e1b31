"""Kafka 3.9's settings of a ZooKeeper-mode broker and of its topics, what each does here, and how values are read.

definition          what a setting is
the settings        cluster_settings, coordinator_settings, log_settings, network_settings, security_settings,
                    topic_settings; elsewhere: Kafka's that do nothing here
catalog             all of them by name; settings_page: docs/settings.md, made of them
properties          the file; providers: values that stand in other files
layers              where a value comes from; topic_overrides: the same for a topic's
checks              which values do not go together; listener_endpoints: those of listeners
"""
