"""Encryption and authentication as both ends of a connection use them: TLS, SASL, and the settings of both.

Brokers are servers to clients and clients to each other, so what they have in common with the clients stands here;
what only a server does is in broker/security.
"""
