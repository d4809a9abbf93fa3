"""A server with metrics, which pages show."""

from dataclasses import dataclass

from tests.serving.server_process import Served


@dataclass(frozen=True)
class Running:
    """A server, and the ports of its site and of its metrics."""

    served: Served
    port: int
    metrics: int

    @property
    def where(self) -> str:
        return f"127.0.0.1:{self.metrics}"
