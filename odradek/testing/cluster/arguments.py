"""Arguments of a cluster's methods, looked at before the cluster gets them."""

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from odradek.testing.cluster.options import ClusterError

SAYS_IT_BETTER = frozenset({"broker", "fault"})
"""Arguments whose methods know what is possible instead."""


def check_arguments(method: Callable[..., object], arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Check what a method of AsyncCluster gets. Raises TypeError, as a call does; ClusterError for a wrong type."""
    name = method.__name__
    signature = inspect.signature(method)
    for unknown in named.keys() - signature.parameters.keys():  # more to the point than what is missing for it
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown!r}")
    try:
        bound = signature.bind(None, *arguments, **named)  # None is its self
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None
    check_types(name, method, {key: value for key, value in bound.arguments.items() if key not in SAYS_IT_BETTER})


def check_types(name: str, method: Callable[..., object], values: Mapping[str, Any]) -> None:
    """Check values, by the name of the argument, against its types. Raises ClusterError."""
    hints = get_type_hints(method)
    for key, value in values.items():
        if not is_of_type(value, hints.get(key, Any)):
            raise ClusterError(f"{name}: {key}={value!r} is not what it takes: {_named(hints[key])}")


def is_of_type(value: Any, hint: Any) -> bool:
    """Tell whether a value is of an argument's type."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(is_of_type(value, one) for one in inner)
    if kind is float:
        return (isinstance(value, float) or is_of_type(value, int)) and math.isfinite(value)
    if kind is int:
        return hasattr(value, "__index__") and not isinstance(value, bool)
    if kind is list:
        return isinstance(value, list | tuple) and all(is_of_type(one, inner[0]) for one in value)
    if kind in (Sequence, Collection, Iterable):
        if not isinstance(value, kind) or isinstance(value, str):
            return False
        # what is no collection can be read once only, and not here
        return not isinstance(value, Collection) or all(is_of_type(one, inner[0]) for one in value)
    if kind in (dict, Mapping):
        return (
            isinstance(value, kind)
            and all(is_of_type(one, inner[0]) for one in value)
            and all(is_of_type(one, inner[1]) for one in value.values())
        )
    if kind is NoneType:
        return value is None
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)


def _named(hint: Any) -> str:
    """Return a type as a person writes it."""
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return str(hint).replace("collections.abc.", "").replace("typing.", "")
