"""The group consumer: assignors, membership, positions and fetching as pure cores; the engine runs them on a loop."""
