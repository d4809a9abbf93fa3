"""A day of runs on a class of machines, and what disturbed its trials."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDay:
    """The runs of one day (UTC) on one class of machines.

    Attributes:
        machine: Key of the class.
        machine_text: Processor, cores and hypervisor.
        checks: By name of a check, how many trials it rejected; most often first.
        noise_floor: As later runs of the day used it: the relative difference of equal servers.
            None if it was unknown.
    """

    machine: str
    machine_text: str
    day: str
    runs: int
    trials: int
    rejected: int
    checks: Mapping[str, int]
    noise_floor: float | None
