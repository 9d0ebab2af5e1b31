"""`make demo`: a broker is killed under load, others take over, and nothing is lost; Spark counts what was sent."""
