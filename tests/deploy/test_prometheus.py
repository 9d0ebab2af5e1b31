"""A real Prometheus scrapes a cluster under load: every panel and every alert finds what it asks for."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.local.ports import free_port_range
from odradek.testing.foreign.confluent import ConfluentClient
from odradek.testing.load import PARTITIONS, QUIET, TOPIC, Load
from odradek.testing.needs import need
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.up import UpCluster

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
CASES = Path(__file__).with_name("alerts_cases.yml")
GROUP = "board"
COMPARED = re.compile(r" (==|!=|<|>) [\d.]+$")
SOON, LATE = "5m30s", "25m"
"""In CASES: a moment of a restart, which is to wake nobody, and one when what is wrong has been so for long."""
ONLY_AFTER = {"TaskDied"}
"""Alerts on series that are there only after what they tell of; what stands in CASES must do."""


def panels() -> dict[str, str]:
    """Return the query of each line of each panel, everything chosen, and of what fills the menus."""
    found = {}
    for file in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        board = json.loads(file.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                name = f"{board['title']}, {panel['title']}, {target['refId']}"
                found[name] = re.sub(r"\$\w+", ".*", target["expr"])
        for menu in board["templating"]["list"]:
            ((series, label),) = re.findall(r"label_values\((\w+), (\w+)\)", menu["query"])
            found[f"{board['title']}, menu {menu['name']}"] = f'{series}{{{label}!=""}}'
    return found


def rules() -> dict[str, dict[str, Any]]:
    """Return the rules by the alert's name."""
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


class Prometheus(NamedTuple):
    port: int

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of its API. Raises URLError while it does not answer."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(parameters)}"
        with urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)["data"]

    def has(self, query: str) -> bool:
        return bool(self.ask("query", query=query)["result"])

    def healthy(self) -> int:
        """Return how many brokers it has scraped; 0 while it does not answer."""
        try:
            targets = self.ask("targets")["activeTargets"]
        except (URLError, ConnectionError):
            return 0
        return sum(one["health"] == "up" for one in targets)

    def state(self, alert: str) -> str:
        (group,) = self.ask("rules")["groups"]
        (rule,) = (one for one in group["rules"] if one["name"] == alert)
        assert rule["health"] in ("ok", "unknown"), rule
        return str(rule["state"])


@contextmanager
def prometheus(folder: Path, targets: list[str]) -> Iterator[Prometheus]:
    """Run it with the configuration of deploy/, but for the addresses and ten times as often."""
    need("prometheus")
    settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(ALERTS)]
    settings["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
    file, port = folder / "prometheus.yml", free_port_range(1)
    file.write_text(yaml.safe_dump(settings))
    command = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", "--log.level=warn"]
    environment = os.environ | {"GOMAXPROCS": "1"}
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log, env=environment
        )
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


class Scraped(NamedTuple):
    cluster: UpCluster
    prometheus: Prometheus


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A cluster of three with a producer, a group, and a client that asks for what there is not."""
    need("prometheus")
    folder = tmp_path_factory.mktemp("scraped")
    with ExitStack() as stack:
        overrides = ["zookeeper.session.timeout.ms=10000"]  # one that expires on a busy machine is an alert
        cluster = stack.enter_context(UpCluster(folder / "cluster", overrides=overrides, metrics=True))
        admin = AdminClient({**QUIET, "bootstrap.servers": cluster.bootstrap})
        topic = NewTopic(TOPIC, PARTITIONS, 3)
        admin.create_topics([topic])[TOPIC].result(PATIENCE_SECONDS)
        with pytest.raises(KafkaException):
            admin.create_topics([topic])[TOPIC].result(PATIENCE_SECONDS)
        stack.enter_context(Load(cluster.bootstrap, producers=1))
        member = ConfluentClient(cluster.bootstrap, **QUIET).join(GROUP, TOPIC)
        stack.callback(member.close)
        targets = [cluster.metrics(broker) for broker in range(cluster.brokers)]
        running = stack.enter_context(prometheus(folder, targets))
        wait_until(lambda: running.healthy() == len(targets), "Prometheus has scraped every broker")
        yield Scraped(cluster, running)


def wait_for_all(prometheus: Prometheus, queries: dict[str, str]) -> None:
    """Wait until each of them has given something once."""
    missing = dict(queries)

    def ask() -> bool:
        for name in [name for name, query in missing.items() if prometheus.has(query)]:
            del missing[name]
        return not missing

    wait_until(ask, "every query gives something", lambda: "\n".join(f"{n}: {q}" for n, q in missing.items()))


@pytest.mark.cluster
def test_every_alert_compares_something_and_none_fires(scraped: Scraped) -> None:
    expressions = {name: rule["expr"] for name, rule in rules().items()}
    compared = {name: COMPARED.sub("", expression) for name, expression in expressions.items()}
    assert all(compared[name] != expression for name, expression in expressions.items())
    wait_for_all(scraped.prometheus, {name: one for name, one in compared.items() if name not in ONLY_AFTER})
    firing = {name for name in expressions if scraped.prometheus.state(name) == "firing"}
    assert firing == set()


@pytest.mark.cluster
def test_a_broker_that_is_gone_is_noticed(scraped: Scraped) -> None:
    admin = AdminClient({**QUIET, "bootstrap.servers": scraped.cluster.bootstrap})
    controller = int(admin.list_topics(timeout=PATIENCE_SECONDS).controller_id)
    scraped.cluster.kill((controller + 1) % scraped.cluster.brokers)  # the controller has something to do then
    noticed = {"BrokerDown", "UnderReplicated"}
    wait_until(
        lambda: all(scraped.prometheus.state(alert) != "inactive" for alert in noticed),
        f"{noticed} are pending",
        lambda: str({name: scraped.prometheus.state(name) for name in rules()}),
    )


@pytest.mark.cluster
def test_every_panel_shows_something(scraped: Scraped) -> None:
    """It comes after the broker that went: how long its partitions took to move is a panel too."""
    queries = panels()
    assert len(queries) > 70
    wait_for_all(scraped.prometheus, queries)


def promtool(*arguments: str) -> None:
    need("promtool")
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_rules_and_configuration(tmp_path: Path) -> None:
    settings = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(settings.replace("/etc/prometheus/alerts.yml", str(ALERTS)))
    promtool("check", "rules", str(ALERTS))
    promtool("check", "config", str(tmp_path / "prometheus.yml"))


def rule_tests() -> dict[str, Any]:
    """Make what `promtool test rules` reads: every alert at a moment when all is well, and when everything is wrong."""
    cases = yaml.safe_load(CASES.read_text())
    assert cases["fires"].keys() == rules().keys()
    fires = [
        {"eval_time": LATE, "alertname": name, "exp_alerts": [expected(rules()[name], labels)]}
        for name, labels in cases["fires"].items()
    ]
    silent = [{"eval_time": LATE, "alertname": name} for name in rules()]
    silent += [{"eval_time": SOON, "alertname": name} for name, rule in rules().items() if "for" in rule]
    return {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "30s",
        "tests": [
            {"interval": "30s", "input_series": cases["well"], "alert_rule_test": silent},
            {"interval": "30s", "input_series": cases["wrong"], "alert_rule_test": fires},
        ],
    }


def expected(rule: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """Return an alert with its annotations filled in."""
    known = {f"$labels.{name}": text for name, text in labels.items()} | {"$value": labels.get("value", "")}
    return {
        "exp_labels": rule["labels"] | {name: text for name, text in labels.items() if name != "value"},
        "exp_annotations": {
            name: re.sub(r"{{ (\S+) }}", lambda found: known[found[1]], text)
            for name, text in rule["annotations"].items()
        },
    }


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(rule_tests()))
    promtool("test", "rules", str(tmp_path / "cases.yml"))
