"""Configuration files of other servers: what can be read of them without running them."""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping

# A value, or why there is none.
Setting = tuple[str, str | None, str]

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
FUNCTIONS: dict[str, Callable[..., float]] = {"int": int, "max": max, "min": min, "round": round}
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match, ast.AugAssign)


def of_python(text: str, cpu_count: int) -> Iterator[Setting]:
    """The assignments of a `gunicorn.conf.py`: name, value, and its line. Else a SyntaxError.

    Without a value, the line is followed by the reason; with one that was computed, by how.
    """
    known: dict[str, object] = {}
    for statement in ast.parse(text).body:
        where = f"line {statement.lineno}"
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name, None, f"{where}: a hook has no counterpart; use the lifespan"
        elif isinstance(statement, BLOCKS):
            yield f"({where})", None, f"{where}: a statement is known only when it runs"
        elif isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            yield f"({where})", None, f"{where}: settings of another file"
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from _assigned(target, statement.value, known, cpu_count)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            yield from _assigned(statement.target, statement.value, known, cpu_count)


def _assigned(
    target: ast.expr, source: ast.expr, known: dict[str, object], cpu_count: int
) -> Iterator[Setting]:
    if not isinstance(target, ast.Name):
        return
    where = f"line {target.lineno}"
    try:
        value = _evaluated(source, known, cpu_count)
    except (ValueError, TypeError, ZeroDivisionError):
        yield target.id, None, f"{where}: {ast.unparse(source)} is known only when it runs"
        return
    known[target.id] = value
    if isinstance(source, ast.Name | ast.BinOp | ast.Call):
        where = f"{where}: {ast.unparse(source)} with {cpu_count} CPUs"
    for one in value if isinstance(value, list | tuple) else (value,):
        yield target.id, "" if one is True else str(one), where


def _evaluated(source: ast.expr, known: Mapping[str, object], cpu_count: int) -> object:
    """The value of a literal, or of arithmetic with known names and the number of CPUs."""
    match source:
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](
                _number(left, known, cpu_count), _number(right, known, cpu_count)
            )
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS:
            numbers = [_number(one, known, cpu_count) for one in arguments]
            return FUNCTIONS[name](*numbers)
        case ast.Call() if ast.unparse(source) == "len(os.sched_getaffinity(0))":
            return cpu_count
        case ast.Call(func=function, args=[]) if ast.unparse(function).endswith("cpu_count"):
            return cpu_count
    return ast.literal_eval(source)


def _number(source: ast.expr, known: Mapping[str, object], cpu_count: int) -> float:
    value = _evaluated(source, known, cpu_count)
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return value


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
