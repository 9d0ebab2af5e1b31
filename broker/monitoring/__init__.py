"""What a broker shows of itself when somebody asks: metrics for Prometheus, and the journal. Reads live objects."""
