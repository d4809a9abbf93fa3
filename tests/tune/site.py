"""A site of one small file, and the configuration of nginx that serves it."""

from pathlib import Path


def write_site(folder: Path, configuration: str, **values: str) -> Path:
    """Writes both; the configuration has {folder} for their place. Returns its path."""
    (folder / "www").mkdir()
    (folder / "www" / "a.txt").write_text("Hello, World!")
    path = folder / "nginx.conf"
    path.write_text(configuration.format(folder=folder, **values))
    return path
