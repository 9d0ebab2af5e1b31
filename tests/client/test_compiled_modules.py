"""Modules that a wheel has compiled: the tests know which form of them they test."""

import importlib
import os
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOOKS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
MODULES = [path.removesuffix(".py").replace("/", ".") for path in HOOKS["mypyc"]["include"]]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_compiled_if_and_only_if_the_tests_are_for_compiled_ones(name: str) -> None:
    """`make test-compiled` says that they are; elsewhere an extension in the tree would hide the source beside it."""
    file = importlib.import_module(name).__file__
    assert file is not None
    assert (Path(file).suffix == ".so") == (os.environ.get("ODRADEK_COMPILED") == "1")
