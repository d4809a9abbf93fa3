__version__: str
__build__: str

def run(arguments: list[str]) -> int: ...
