"""The journal of a broker: the last things that it and its controller did, and why. In memory; read over HTTP.

journal     entries, numbered, in the order in which things happened
sentences   what an entry says to people: one table, for `odradek why`, the console and the state-change log
"""
