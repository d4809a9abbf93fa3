"""Two made-up runs between which a program changed."""

from pathlib import Path

from jissoku.model.updated import updated
from tests.history.factories import write_run
from tests.inference import factories
from tests.inference.factories import TrueValues


def record(folder: Path, day: int, version: str, cost_ns: float) -> None:
    """A run of the floor, Go and a version of jissoku."""
    costs = {"floor": 5_000, "go": 8_000, "jissoku": cost_ns}
    truths = {name: TrueValues(cost_ns=cost) for name, cost in costs.items()}
    arms = tuple(
        updated(
            factories.arm(name),
            version=version if name == "jissoku" else "1.0",
            binary_sha256=f"{name} {version if name == 'jissoku' else ''}",
        )
        for name in truths
    )
    write_run(folder, truths, arms, seed=day, day=day)
