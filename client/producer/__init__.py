"""The producer: accumulator, partitioners and sender as pure cores; the engine runs them on a loop."""
