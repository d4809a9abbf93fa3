"""Builds the site: `python -m tests.documentation FOLDER`; `make docs` does it."""

import subprocess
import sys
from pathlib import Path

from tests.documentation import commands, fields, keys, migration, pages


def reference() -> dict[str, str]:
    """The pages that are made from the program, by their place in the site."""
    manual = commands.manual()
    of_serve = keys.pages(manual["jissoku-serve"])
    return commands.pages(manual) | of_serve | migration.pages() | fields.pages()


def build(folder: Path) -> int:
    """Writes the pages to FOLDER/pages and the site to FOLDER/html; a lost link is an error."""
    pages.write(folder / "pages", reference())
    command = [
        *(sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"),
        *("-c", str(Path(__file__).parent), "-d", str(folder / "cache")),
        *(str(folder / "pages"), str(folder / "html")),
    ]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1])))
