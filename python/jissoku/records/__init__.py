"""Records on disk: one folder per run, one line per trial."""

from jissoku.records.run_folder import (
    RunWriter as RunWriter,
    read as read,
    read_profiles as read_profiles,
    read_sweep as read_sweep,
    unfinished_reason as unfinished_reason,
    write_profiles as write_profiles,
    write_sweep as write_sweep,
)
