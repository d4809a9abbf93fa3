"""The workflow that builds wheels: for every supported CPython, and for what docs say."""

import re
import sysconfig
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
WORKFLOW = (REPOSITORY / ".github" / "workflows" / "wheels.yml").read_text("utf-8")


def versions() -> list[str]:
    found = re.search(r"^ +python: \[(.*)\]$", WORKFLOW, re.MULTILINE)
    assert found is not None
    return re.findall(r'"([\d.]+t?)"', found[1])


def test_the_oldest_version_is_the_one_that_the_package_requires() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == f">={versions()[0]}"


def test_there_is_a_wheel_for_this_interpreter() -> None:
    is_free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert sysconfig.get_python_version() + "t" * is_free_threaded in versions()


def test_the_documentation_names_the_versions() -> None:
    text = (REPOSITORY / "docs" / "apps.md").read_text("utf-8")
    _, _, section = text.partition("## Wheels\n")
    first = section.strip().split("\n\n")[0].replace("\n", " ")
    assert re.findall(r"\b3\.\d+t?\b", first) == versions()
    assert (REPOSITORY / ".github" / "workflows" / "wheels.yml").relative_to(
        REPOSITORY
    ).as_posix() in section
