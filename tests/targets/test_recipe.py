from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import Capability
from jissoku.targets import catalogue

RIGHT = """description = "What it is."
limitations = "Nothing."
install = "make it"
capabilities = ["hello", "files"]
program = "prog"

[version]
command = ["{program}", "-v"]
pattern = 'v(.*)'

[[build]]
command = ["make", "{cache}/prog"]

[start]
command = ["{program}", "{listen}"]
[start.environment]
WORKERS = "{workers}"

[listen]
tcp = ["{port}"]
unix = ["{socket}"]

[[config]]
name = "a.conf"
text = "x"
"""


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_recipe_is_named_for_its_file(tmp_path: Path) -> None:
    found = catalogue.read(write(tmp_path, RIGHT))
    assert found.name == "mine"
    assert found.capabilities == (Capability.HELLO, Capability.FILES)
    assert found.start.environment == {"WORKERS": "{workers}"}


@pytest.mark.parametrize(
    ("old", "new", "place", "why"),
    [
        ('"hello", ', '"helo", ', "line 4, key `capabilities`", "'helo'"),
        ('"hello", "files"', "", "line 4, key `capabilities`", "at least one"),
        ('"hello", ', '"files", ', "line 4, key `capabilities`", "twice"),
        ('"What it is."', '" "', "line 1, key `description`", "not be empty"),
        ("v(.*)", "v(.*", "line 9, key `version.pattern`", "regular expression"),
        ("v(.*)", "v.*", "line 9, key `version.pattern`", "group"),
        ('["{program}", "-v"]', "[]", "line 8, key `version.command`", "not be empty"),
        ("{cache}/prog", "{port}", "line 12, key `build.command`", "{port} is not known here"),
        ('["make", "{cache}/prog"]', "[]", "line 12, key `build.command`", "not be empty"),
        ('"{listen}"]', '"{prot}"]', "line 15, key `start.command`", "{prot} is not known here"),
        ('"{listen}"]', '"80"]', "line 15, key `start.command`", "where {listen} goes"),
        ("{workers}", "{wrokers}", "line 17, key `start.environment.WORKERS`", "{wrokers}"),
        ('"{port}"', '"80"', "line 20, key `listen.tcp`", "must contain {port}"),
        ('"{socket}"', '"x"', "line 21, key `listen.unix`", "must contain {socket}"),
        ("a.conf", "../a.conf", "line 24, key `config.name`", "below {run}"),
        ("a.conf", "/etc/a.conf", "line 24, key `config.name`", "below {run}"),
    ],
)
def test_an_invalid_recipe_is_reported_with_file_line_and_key(
    tmp_path: Path, old: str, new: str, place: str, why: str
) -> None:
    assert old in RIGHT
    with pytest.raises(InputError) as refused:
        catalogue.read(write(tmp_path, RIGHT.replace(old, new, 1)))
    message = str(refused.value)
    assert message.startswith(f"mine.toml, {place}: "), message
    assert why in message


def test_a_name_that_no_table_could_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="small letters, digits and hyphens"):
        catalogue.read(write(tmp_path, RIGHT, "My Server.toml"))
