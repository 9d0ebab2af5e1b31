"""Unusual settings of simulated runs: brokers and clients know them and obey them, and half of the plans have some."""

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.broker.config import Given, build_config
from odradek.broker.settings.catalog import known_setting
from odradek.broker.settings.definition import Effect
from odradek.client.config import defaults, load
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.producer.config import ProducerConfig
from odradek.testing.simulation.plans import SETTINGS, varied_plan
from odradek.testing.simulation.unusual_settings import OF_BROKERS, OF_CONSUMERS, OF_PRODUCERS, RACKS, USUAL

NEEDED = {"zookeeper.connect": "memory:2181", "broker.id": "1"}


@pytest.mark.parametrize(("name", "values"), OF_BROKERS.items())
def test_a_setting_of_brokers_is_obeyed_and_is_set_to_something_else(name: str, values: Sequence[str]) -> None:
    setting = known_setting(name)
    assert setting is not None and setting.effect is Effect.WORKS
    assert SETTINGS.get(name, setting.default) not in values


@pytest.mark.parametrize(("config", "table"), [(ProducerConfig, OF_PRODUCERS), (ConsumerSettings, OF_CONSUMERS)])
def test_settings_of_clients_are_settings(config: Any, table: dict[str, Sequence[Any]]) -> None:
    usual = defaults(config)
    for name, values in table.items():
        for value in values:
            assert getattr(load(config, None, {"bootstrap_servers": "a:1", name: value}), name) == value
            assert value != usual[name]


def test_what_is_drawn_together_is_legal_and_all_of_it_is_drawn() -> None:
    plans = [varied_plan(seed) for seed in range(1000)]
    unusual = [plan.unusual for plan in plans if plan.unusual is not USUAL]
    assert 400 < len(unusual) < 600
    for plan in plans:
        build_config([Given(name, value, "settings") for name, value in {**NEEDED, **plan.of_brokers}.items()])
    assert {name for one in unusual for name in one.brokers} == {*OF_BROKERS, *RACKS}
    assert {name for one in unusual for name in one.producers} == {*OF_PRODUCERS}
    assert {name for one in unusual for name in one.consumers} == {*OF_CONSUMERS}
