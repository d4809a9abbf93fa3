"""Arithmetic over dotted names, as in checks: `tool.requests + tool.errors`."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

from jissoku.errors import InputError

Names = Mapping[str, float]

OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
FUNCTIONS: dict[str, Callable[..., float]] = {
    "max": max, "min": min, "abs": abs, "sqrt": math.sqrt,
}  # fmt: skip


class UnreportedValue(Exception):  # noqa: N818 - an unreported value is not an error
    """A figure that the expression needs is not there."""


def value(text: str, names: Names) -> float:
    """What an expression comes to. `known(x)` is 0 where `x` is not there.

    Raises:
        Unknown: A name that is not there, or a division by zero, which is a figure that is not
            there either.
        InputError: It is no expression.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise InputError(f"{text!r} is an invalid expression: {error.msg}") from error
    try:
        return _value(tree.body, names)
    except ZeroDivisionError as error:
        raise UnreportedValue(text) from error


def _value(node: ast.expr, names: Names) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _called(function, arguments, names)
        case ast.Name() | ast.Attribute():
            return _named(ast.unparse(node), names)
        case _:
            raise InputError(f"{ast.unparse(node)!r} is not arithmetic over reported values")


def _named(name: str, names: Names) -> float:
    if name not in names:
        raise UnreportedValue(name)
    return names[name]


def _called(function: str, arguments: list[ast.expr], names: Names) -> float:
    if function == "known" and len(arguments) == 1:
        try:
            return _value(arguments[0], names)
        except UnreportedValue:
            return 0.0
    if function not in FUNCTIONS:
        raise InputError(f"{function!r} is an unknown function")
    return FUNCTIONS[function](*(_value(argument, names) for argument in arguments))
