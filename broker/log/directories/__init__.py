"""Log directories, the entries of `log.dirs`: their owners, the logs in them, checkpoints, and upkeep of all logs."""
