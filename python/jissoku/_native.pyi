"""The native half: engine, stopwatch and floor."""

__version__: str
__build__: str

def run(arguments: list[str]) -> int: ...
