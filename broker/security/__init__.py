"""Security of a broker: TLS and SASL at its listeners, principals, and access lists."""
