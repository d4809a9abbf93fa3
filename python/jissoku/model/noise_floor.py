"""The noise floors of each machine."""

import msgspec

from jissoku.model.run import Method

SCHEMA = "jissoku.noise/2"


class NoiseFloor(msgspec.Struct, frozen=True, kw_only=True):
    """Of one method on one machine.

    Attributes:
        noise_floor: Within this of 1 lie the ratios of 95 % of campaigns of equal arms.
        campaigns: How many there were, of this many blocks each.
        block_sd_log: Standard deviation of one block's log ratio.
        measured_utc: When; a date for people, nothing is computed from it.
        jissoku: Version that measured it.
    """

    noise_floor: float
    campaigns: int
    blocks: int
    block_sd_log: float
    measured_utc: str
    jissoku: str


class MachineNoise(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: its identifying properties, and its noise floors."""

    cpu_model: str
    cores: int
    kernel: str
    hypervisor: str
    methods: dict[Method, NoiseFloor] = msgspec.field(default_factory=dict)


class NoiseFloors(msgspec.Struct, frozen=True, kw_only=True):
    """Every machine of a user, by its fingerprint."""

    schema: str = SCHEMA
    machines: dict[str, MachineNoise] = msgspec.field(default_factory=dict)
