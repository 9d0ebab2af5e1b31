"""Kafka 3.9's settings of a ZooKeeper-mode broker and of its topics, what each does here, and how values are read.

definition.py says what a setting is; the modules named …_settings are the settings themselves, by subject; catalog.py
puts them together; layers.py says where a value comes from, checks.py which values do not go together; page.py writes
docs/settings.md.
"""
