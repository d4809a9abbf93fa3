"""From target names to a folder of records: trials, the load generator, conditions, probes.

Configuration -> targets prepared -> each verified -> run header -> blocks of trials, each recorded
as it ends -> (a reader turns records into a summary and a report). This package connects the others
and passes values from one to the next. Its functions raise InputError for what was asked wrongly,
TargetError for a target that fails, and other kinds of JissokuError, each with a whole sentence.
"""
