"""A whole cluster with clients and faults on virtual time, from one seed: see run.py."""
