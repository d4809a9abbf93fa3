"""Looking at the machine and at trials: the stopwatch, cores, conditions, memory."""
