"""Targets on another host: an agent there, and the lab's end of the connection to it.

The agent prepares, starts and observes targets; load, plan, records and verdicts stay where the
command was given. `wire` and `clock` are pure.
"""
