"""Stories for two brokers: the same raw requests to Apache Kafka and to Odradek, answers compared by field.

A story is data: who asks what, in which order (`steps`). `player` plays it to both sides at once, `comparison` says
what an answer is compared by and which differences are wanted, the other modules are the stories by subject.
"""
