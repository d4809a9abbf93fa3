"""How long things take in each mode, and how sure the answer will be."""

from dataclasses import dataclass

from jissoku.model import Mode

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What one mode spends.

    Attributes:
        blocks: Blocks before the first look at the precision.
        blocks_max: Where it ends in any case.
        blocks_step: Blocks between two looks; 0 when there is one look only.
        half_width: A campaign ends when every interval's half-width is at most this; None: no look.
        solo_blocks: So many blocks hold solo trials too, for rate, latency and the interference
            check.
        paced_blocks: So many of these hold a solo trial at the common rate too; None: all of them.
    """

    blocks: int
    blocks_max: int
    blocks_step: int
    half_width: float | None
    solo_blocks: int
    warmup_ns: int
    window_ns: int
    paced_blocks: int | None = None

    @property
    def solos_paced(self) -> int:
        """Solo trials at a rate that each arm has."""
        paced = self.solo_blocks if self.paced_blocks is None else self.paced_blocks
        return min(paced, self.solo_blocks)


EFFORTS = {
    # Nine blocks allow an exact rejection for up to ten comparisons under Holm.
    Mode.QUICK: Effort(
        blocks=9,
        blocks_max=9,
        blocks_step=0,
        half_width=None,
        solo_blocks=3,
        warmup_ns=3 * SECOND // 10,
        window_ns=SECOND,
    ),
    # The first look comes at ten blocks and later ones five apart: with that the interval keeps its
    # coverage (0.93-0.95 simulated); a look after every block would not.
    Mode.STANDARD: Effort(
        blocks=10,
        blocks_max=40,
        blocks_step=5,
        half_width=0.01,
        solo_blocks=10,
        warmup_ns=2 * SECOND,
        window_ns=3 * SECOND,
    ),
}
