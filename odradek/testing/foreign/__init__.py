"""Clients of Kafka that others have written, all behind one small interface, for tests of compatibility.

They are used as they are released: no patch, no setting that a user would not set.
"""
