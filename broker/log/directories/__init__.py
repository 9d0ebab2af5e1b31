"""Log directories, the entries of `log.dirs`: their owners, the logs in them, checkpoints, and upkeep of all logs.

directory_files         names and small files of a directory; checkpoint_files: its checkpoints
log_directory           one entry: its lock, its owner, the logs in it
loading                 all logs of the entries at the start; closing: at the end
live_logs               the entries that work and the logs in them; what happens when a disk fails
future_logs             logs that are to take another one's place
checkpoints             when checkpoints are written, and with what
maintenance             retention, flushes and producers that are gone, from time to time
"""
