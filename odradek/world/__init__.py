"""The world, passed in: clock, files, network and randomness behind small protocols.

Brokers, controllers and clients take these objects in their constructors and touch nothing else of the outside. The
real ones live here; tests swap in simulated ones and run the very same broker objects on them.
"""
