"""The Helm chart: linted and rendered by Helm itself, with each of its choices, and checked as the manifests are."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from yaml import CSafeLoader as Loader

from odradek.broker.config import load_config
from odradek.testing.foreign.downloads import DownloadFailed
from odradek.testing.foreign.helm import Helm, HelmRefuses
from odradek.testing.needs import CANNOT_BE_HAD, need

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm"
VERSIONS = ("1.28", "1.37")
COPIES = ("default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor")
CHOICES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "secured": {
        "tls": {"secret": "certificates", "clientAuth": "required"},
        "inside": {"protocol": "SSL"},
        "outside": {"type": "LoadBalancer", "host": "kafka-$(KAFKA_BROKER_ID).example.org", "protocol": "SSL"},
    },
    "NodePort": {"outside": {"type": "NodePort", "annotations": {"team": "data"}}, "brokers": 10},
    "alone": {
        "brokers": 1,
        "settings": {"min.insync.replicas": 1, "transaction.state.log.min.isr": 1, **dict.fromkeys(COPIES, 1)},
    },
    "elsewhere": {
        "zookeeper": {"enabled": False, "connect": "zk-1:2181,zk-2:2181/kafka"},
        "rack": {"label": "topology.kubernetes.io/zone"},
        "storage": {"className": "fast", "size": "1Ti"},
        "image": {"repository": "registry.example/odradek", "tag": "1.2.3", "pullSecrets": [{"name": "registry"}]},
        "settings": {
            "message.max.bytes": 10485760,
            "log.cleaner.min.cleanable.ratio": 0.3,
            "delete.topic.enable": False,
        },
        "nodeSelector": {"disk": "local"},
        "tolerations": [{"key": "kafka", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "podAnnotations": {"team": "data"},
        "env": [{"name": "KAFKA_NUM_PARTITIONS", "value": "6"}],
    },
}


@pytest.fixture(scope="module")
def helm() -> Helm:
    need("mvn")
    try:
        return Helm(ROOT / ".cache" / "helm")
    except DownloadFailed as failed:
        pytest.skip(f"{CANNOT_BE_HAD}{failed}")


def rendered(helm: Helm, folder: Path, values: dict[str, Any], release: str = "odradek") -> list[dict[str, Any]]:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return [one for one in yaml.load_all(helm.template(CHART, file, release=release), Loader) if one]


def of_kind(documents: list[dict[str, Any]], kind: str, name: str = "odradek") -> dict[str, Any]:
    (found,) = (one for one in documents if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


def container(documents: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = of_kind(documents, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def variables(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container(documents)["env"]}


def test_helm_has_nothing_against_the_chart(helm: Helm) -> None:
    assert "WARNING" not in helm.lint(CHART)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_gives_manifests_of_the_schema(helm: Helm, tmp_path: Path, choice: str) -> None:
    documents = rendered(helm, tmp_path, CHOICES[choice])
    assert len(documents) > 4
    for version in VERSIONS:
        for document in documents:
            kubernetes_validate.validate(document, version, strict=True)


def test_the_manifests_of_kustomize_are_the_charts(helm: Helm) -> None:
    folder = ROOT / "deploy" / "kubernetes"
    spec = importlib.util.spec_from_file_location("render", folder / "render.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, text in module.files(helm).items():
        assert (folder / name).read_text() == text, f"{name}: run python deploy/kubernetes/render.py"


def test_a_broker_starts_with_the_settings_of_each_choice(helm: Helm, tmp_path: Path) -> None:
    secret = tmp_path / "tls"
    secret.mkdir()
    for name in ("tls.key", "tls.crt", "ca.crt"):
        (secret / name).write_text("x")
    for values in CHOICES.values():
        documents = rendered(helm, tmp_path, values)
        text = of_kind(documents, "ConfigMap")["data"]["server.properties"]
        (tmp_path / "server.properties").write_text(text.replace("/etc/odradek-tls", str(secret)))
        given = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): re.sub(r"\$\(\w+\)", "1", value)
            for name, value in variables(documents).items()
            if name.startswith("KAFKA_") and isinstance(value, str)
        }
        overrides = [f"{name}={value}" for name, value in given.items()]
        config = load_config(str(tmp_path / "server.properties"), ["broker.id=1", *overrides])
        ports = {port["containerPort"] for port in container(documents)["ports"]}
        assert {listener.port for listener in config.listeners} | {config.metrics_port} == ports
        for name, value in values.get("settings", {}).items():
            assert f"\n{name}={str(value).lower() if isinstance(value, bool) else value}" in text


def test_secrets_are_mounted_where_the_settings_look_for_them(helm: Helm, tmp_path: Path) -> None:
    documents = rendered(helm, tmp_path, CHOICES["secured"])
    text = of_kind(documents, "ConfigMap")["data"]["server.properties"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container(documents)["volumeMounts"]}
    volumes = {one["name"]: one for one in of_kind(documents, "StatefulSet")["spec"]["template"]["spec"]["volumes"]}
    assert volumes["tls"]["secret"]["secretName"] == "certificates"
    assert text.count("${dir:" + mounts["tls"] + ":") == 3 and "ssl.client.auth=required" in text
    assert "OUTSIDE://kafka-$(KAFKA_BROKER_ID).example.org:9094" in variables(documents)["KAFKA_ADVERTISED_LISTENERS"]


def test_a_rack_is_the_zone_of_the_pod(helm: Helm, tmp_path: Path) -> None:
    documents = rendered(helm, tmp_path, CHOICES["elsewhere"])
    label = "metadata.labels['topology.kubernetes.io/zone']"
    assert variables(documents)["KAFKA_BROKER_RACK"] == {"fieldRef": {"fieldPath": label}}
    assert not [one for one in documents if "zookeeper" in one["metadata"]["name"]]


def test_two_releases_share_nothing(helm: Helm, tmp_path: Path) -> None:
    one, other = (rendered(helm, tmp_path, {}, release) for release in ("blue", "green"))
    names = [{(document["kind"], document["metadata"]["name"]) for document in each} for each in (one, other)]
    assert not names[0] & names[1]
    selectors = [
        of_kind(each, "StatefulSet", name)["spec"]["selector"] for each, name in ((one, "blue"), (other, "green"))
    ]
    assert selectors[0] != selectors[1]


def test_a_change_of_settings_is_a_change_of_the_pods(helm: Helm, tmp_path: Path) -> None:
    marks = [
        of_kind(rendered(helm, tmp_path, values), "StatefulSet")["spec"]["template"]["metadata"]["annotations"]
        for values in ({}, {"settings": {"num.partitions": 3}})
    ]
    assert marks[0]["checksum/settings"] != marks[1]["checksum/settings"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"zookeeper": {"enabled": False}}, "zookeeper.connect has to say where one is"),
        ({"inside": {"protocol": "SSL"}}, "SSL needs tls.secret"),
        ({"brokers": 1}, "default.replication.factor=3 is more than brokers=1"),
        ({"brokers": 2, "settings": {"default.replication.factor": 2}}, "offsets.topic.replication.factor=3 is more"),
        (
            {"brokers": 1, "settings": dict.fromkeys(COPIES, 1)},
            "min.insync.replicas=2 is more than brokers=1",
        ),
        ({"outside": {"type": "NodePort"}, "brokers": 11}, "at most ten brokers"),
        ({"outside": {"type": "LoadBalancer", "host": "kafka"}}, "outside.host with $(KAFKA_BROKER_ID)"),
        ({"broker": 3}, "broker"),
        ({"outside": {"nodePort": 30095}}, "multiple"),
    ],
)
def test_values_that_cannot_work_are_refused(helm: Helm, tmp_path: Path, values: dict[str, Any], said: str) -> None:
    with pytest.raises(HelmRefuses) as refused:
        rendered(helm, tmp_path, values)
    assert said in str(refused.value)
