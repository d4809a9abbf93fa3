import re
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import Capability, Recipe
from jissoku.model.recipe import TargetKind
from jissoku.targets import catalogue
from jissoku.targets.placeholders import APPS

RECIPES = catalogue.recipes()


@pytest.fixture(params=list(RECIPES.values()), ids=list(RECIPES))
def recipe(request: pytest.FixtureRequest) -> Recipe:
    found = request.param
    assert isinstance(found, Recipe)
    return found


def test_every_promised_target_has_a_recipe() -> None:
    assert RECIPES.keys() == {
        "bjoern", "caddy-gateway", "cheroot", "civetweb", "daphne", "envoy-gateway", "fastpysgi",
        "fastpysgi-asgi", "fastwsgi", "feersum", "floor", "floor-gateway", "floor-uwsgi-gateway",
        "go", "go-fan-out", "granian", "granian-asgi-pages", "granian-rsgi", "granian-wsgi",
        "granian-wsgi-pages", "gunicorn", "gunicorn-asgi", "gunicorn-threads",
        "gunicorn-wsgi-pages", "h2o", "haproxy", "haproxy-four", "haproxy-gateway", "http-server",
        "hypercorn", "jissoku", "jissoku-asgi", "jissoku-asgi-pages", "jissoku-c",
        "jissoku-fan-out", "jissoku-four", "jissoku-gateway", "jissoku-parts", "jissoku-rust",
        "jissoku-uwsgi", "jissoku-uwsgi-gateway", "jissoku-wsgi", "jissoku-wsgi-pages",
        "kernel-httpd", "kore", "libev", "libevent", "libmicrohttpd", "lighttpd", "meinheld",
        "minefield", "nginx", "nginx-echo", "nginx-fan-out", "nginx-four", "nginx-gateway",
        "nginx-proxy", "nginx-tuned", "nginx-uwsgi-gateway", "nginx-wsgi", "node", "one-slow",
        "parsers", "poco", "socketify", "starlet", "starman", "tornado", "twisted", "uvicorn",
        "uvicorn-asgi-pages", "uwsgi", "waitress",
    }  # fmt: skip


def test_a_group_lists_its_members_and_a_wrong_one_names_all() -> None:
    assert {"bjoern", "fastpysgi", "gunicorn", "jissoku-wsgi"} <= set(
        catalogue.group(RECIPES, "wsgi")
    )
    with pytest.raises(InputError, match="there are asgi, wsgi"):
        catalogue.group(RECIPES, "wsg")


def test_a_recipe_knows_what_its_target_is() -> None:
    found = {name: recipe.target_kind for name, recipe in RECIPES.items()}
    assert found["nginx-tuned"] is found["parsers"] is TargetKind.SERVER
    assert found["haproxy-gateway"] is found["nginx-proxy"] is TargetKind.PROXY
    assert found["uvicorn"] is found["jissoku-wsgi-pages"] is TargetKind.APPLICATION_SERVER
    for name, recipe in RECIPES.items():
        assert recipe.kind is None or not (recipe.groups or recipe.forward), name


def test_a_recipe_opens_with_prose(recipe: Recipe) -> None:
    text = (catalogue.BUILTIN_RECIPES / f"{recipe.name}.toml").read_text()
    assert text.startswith("# ")
    assert text.index("description =") < text.index("limitations =") < text.index("install =")


def test_a_recipe_lists_its_limitations(recipe: Recipe) -> None:
    paths = {Capability.ANSWER_42: "/42", Capability.DELAY: "/delay", Capability.FILES: "/files"}
    for part in set(Capability) - set(recipe.capabilities):
        assert recipe.name in {"floor", "parsers"} or paths[part] in recipe.limitations


def test_a_recipe_says_whether_it_sends_a_date_and_limits_time(recipe: Recipe) -> None:
    prose = recipe.description + recipe.limitations
    assert "Date" in prose
    assert re.search(r"limit|timeout|in time", prose)


def test_a_recipe_without_a_unix_socket_says_so(recipe: Recipe) -> None:
    assert bool(recipe.listen.unix) != ("no Unix sockets" in recipe.limitations)


def test_every_application_that_a_recipe_names_is_there(recipe: Recipe) -> None:
    words = [*recipe.start.command, *recipe.version.command]
    words += [word for step in recipe.build for word in step.command]
    for word in words:
        if word.startswith("{apps}/"):
            assert (APPS / word.removeprefix("{apps}/")).is_file(), word


def test_no_recipe_names_a_path_of_one_machine(recipe: Recipe) -> None:
    words = [recipe.program, *recipe.start.command, *recipe.version.command]
    assert not [word for word in words if word.startswith(("/home", "/root", "/tmp"))]  # noqa: S108


def test_a_folder_of_ones_own_adds_recipes(tmp_path: Path) -> None:
    text = (catalogue.BUILTIN_RECIPES / "http-server.toml").read_text()
    (tmp_path / "mine.toml").write_text(text)
    (tmp_path / "notes.md").write_text("no recipe")
    assert catalogue.recipes([tmp_path]).keys() - RECIPES.keys() == {"mine"}


def test_a_name_may_not_be_taken_twice(tmp_path: Path) -> None:
    (tmp_path / "go.toml").write_text((catalogue.BUILTIN_RECIPES / "go.toml").read_text())
    with pytest.raises(InputError, match=r"go\.toml: there is a recipe 'go' already"):
        catalogue.recipes([tmp_path])


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="recipes cannot be read"):
        catalogue.recipes([tmp_path / "absent"])


def test_an_unknown_target_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(InputError, match="'ngnix'; did you mean nginx"):
        catalogue.get_recipe(RECIPES, "ngnix")
    with pytest.raises(InputError, match=r"'\?\?\?'; `jissoku targets` lists them$"):
        catalogue.get_recipe(RECIPES, "???")
    with pytest.raises(InputError) as refused:
        catalogue.get_recipe(RECIPES, "nginx-x")
    assert str(refused.value).count(" or ") <= 2
    assert catalogue.get_recipe(RECIPES, "go") is RECIPES["go"]


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
