"""The noise floors of each machine."""

import msgspec

from jissoku.model.run import Method

SCHEMA = "jissoku.noise/2"


class NoiseFloor(msgspec.Struct, frozen=True, kw_only=True):
    """The noise floor of one method on one machine.

    Attributes:
        noise_floor: 95 % of the ratios of campaigns of equal arms differ from 1 by at most this.
        campaigns: Number of campaigns; `blocks` is the number of blocks of each.
        block_sd_log: Standard deviation of one block's log ratio.
        measured_utc: Date of the measurement, for display only.
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
