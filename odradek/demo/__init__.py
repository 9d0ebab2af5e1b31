"""`make demo`: a cluster at work. A broker is killed under load, another takes over, and nothing is lost."""
