"""Measurement: the load generator, cores, machine conditions, memory."""
