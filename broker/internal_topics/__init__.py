"""What both coordinators do with the partitions of their topics: find them, load them, own them."""
