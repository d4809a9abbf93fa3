"""The operating system: processes, cores, sockets, tracing, locks and signals.

Every stage with I/O may import it; nothing here depends on trials, loads or recipes.
"""
