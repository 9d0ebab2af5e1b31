"""Journal of a broker: the last things that it and its controller did, and why. In memory; read over HTTP.

journal     numbered entries, in the order in which things happened
sentences   entries in words: one table for `odradek why`, the console and the state-change log
"""
