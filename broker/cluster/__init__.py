"""This broker among the others: its registration, what it knows of the cluster, and its requests to other brokers."""
