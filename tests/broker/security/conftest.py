"""Fixtures of tests of a listener with SASL."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.broker.security.sasl_listener import run


@pytest.fixture
def play(make_harness: Any) -> Callable[..., None]:
    """Runs a scenario with a harness that has a SASL listener; keywords are settings, `_` for `.` and `__` for `_`."""
    return lambda scenario, **changes: run(make_harness, scenario, **changes)
