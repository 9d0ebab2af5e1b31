"""A broker's logs on a disk that stops at any byte: a random workload, and what has to hold afterwards."""
