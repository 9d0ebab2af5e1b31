"""Simulated parts of the world for tests: the same protocols as odradek/world, with faults on demand."""
