"""Sockets, frames and connections: requests come in here, answers go out, in order and within limits.

socket_server       all listeners and connections of a broker
connection          one connection: frames in, answers out; limits: what no setting changes
buffers             what it holds: received bytes, slots of answers, bytes to be sent
outcomes            what a handler may return: an answer now, later, or none; and who has asked
boundary            where a failure ends one connection and nothing else
entrance            TLS and SASL before the first request; sasl_gate: what SASL lets through
"""
