"""The world, passed in: clock, files, network and randomness behind small protocols.

Brokers, controllers and clients take these objects in their constructors and touch nothing else of the outside. The
real ones live here; tests swap in simulated ones and run the very same broker objects on them.

clock               time and timers; durations: how long things took
files               what is asked of files; os_files: the real ones
network             what is asked of a network; tcp: the real one
tasks               the one way to start work that goes on; periodic: work that is repeated
time_slices         long work on the loop, with pauses for others
background          work that blocks in the kernel, on a thread
children            work that takes much Python time, in a process; child_process: the inside of that
memory              what the C library keeps of it, and its end
process_log         where a process writes what it logs
"""
