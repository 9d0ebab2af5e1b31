"""The entries of `log.dirs`: whose they are, which logs they hold, what is checkpointed there, what is done to all."""
