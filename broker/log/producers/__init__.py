"""What a log remembers of idempotent and transactional producers, in memory and in snapshots."""
