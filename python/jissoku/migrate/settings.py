"""Configuration files of other servers: what can be read of them without running them."""

import ast
from collections.abc import Iterator

# A value, or why there is none.
Setting = tuple[str, str | None, str]


def of_python(text: str) -> Iterator[Setting]:
    """The assignments of a `gunicorn.conf.py`: name, value, and why it cannot be read.

    Raises:
        SyntaxError: It is not Python.
    """
    for statement in ast.parse(text).body:
        where = f"line {statement.lineno}"
        if isinstance(statement, ast.FunctionDef):
            yield statement.name, None, f"{where}: a hook has no counterpart; use the lifespan"
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            if not isinstance(target, ast.Name) or not isinstance(statement, ast.Assign):
                continue
            try:
                value = ast.literal_eval(statement.value)
            except ValueError:
                source = ast.unparse(statement.value)
                yield target.id, None, f"{where}: {source} is known only when it runs"
                continue
            for one in value if isinstance(value, list | tuple) else (value,):
                yield target.id, "" if one is True else str(one), where
        if isinstance(statement, ast.If | ast.For | ast.With | ast.Try):
            yield f"({where})", None, f"{where}: a statement is known only when it runs"


def of_ini(text: str) -> Iterator[Setting]:
    """The settings of the section `[uwsgi]` of an ini file, as :func:`of_python`."""
    is_ours = False
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.partition(";")[0].strip()
        if not plain or plain.startswith("#"):
            continue
        if plain.startswith("["):
            is_ours = plain == "[uwsgi]"
            continue
        if not is_ours:
            continue
        key, _, value = (part.strip() for part in plain.partition("="))
        where = f"line {number}"
        if "%" in value or "$(" in value or "@(" in value:
            yield key, None, f"{where}: {value} is known only when it runs"
        elif value.lower() not in {"false", "0"} or value == "0":
            yield key, "" if value.lower() == "true" else value, where
