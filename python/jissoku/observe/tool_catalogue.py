"""The described load generators, and those that are installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model.load_tool import InstalledTool, Tool
from jissoku.system import toml_file

TOOLS = Path(__file__).parent / "tools"

# Limit for a program to print its version, in seconds.
VERSION_S = 20


def read_tools(folder: Path = TOOLS) -> dict[str, Tool]:
    """Every described tool, by name."""
    found = [toml_file.read(path, Tool) for path in sorted(folder.glob("*.toml"))]
    return {tool.name: tool for tool in found}


def find_tool(tool: Tool, home: Path) -> InstalledTool:
    """Finds a tool on the search path, or in the folder of its installation command.

    Raises:
        InputError: It is not installed, or does not report its version.
    """
    places = [str(home / "bin"), os.environ.get("PATH", os.defpath)]
    beside = home / tool.get.program
    program = (
        str(beside)
        if beside.is_file()
        else shutil.which(tool.get.program, path=os.pathsep.join(places))
    )
    if tool.get.program == "{python}":
        program = sys.executable
    how = tool.get.how.format(tools=home)
    if program is None:
        raise InputError(f"{tool.name} is not installed: {how}")
    words = [word.format(program=program, python=sys.executable) for word in tool.get.version]
    try:
        text = subprocess.run(words, capture_output=True, text=True, timeout=VERSION_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{tool.name} does not run here: {error}") from error
    version = re.search(tool.get.pattern, text.stdout + text.stderr)
    if version is None:
        raise InputError(
            f"{tool.name} does not report its version, so it may be another program: {how}"
        )
    return InstalledTool(tool=tool, program=program, version=version[1])
