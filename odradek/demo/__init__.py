"""`make demo`: a cluster at work. A broker is killed under load, others take over, nothing is lost; Spark counts too."""
