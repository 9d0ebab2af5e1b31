"""The Kubernetes manifests: what the API server would take, and settings that a broker would start with."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from yaml import CSafeLoader as Loader

from odradek.broker.config import BrokerConfig, load_config

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
OUTSIDE = FOLDER.with_name("kubernetes-outside")
VERSIONS = ("1.28", "1.37")
"""The oldest that has the ordinal in a label, and the newest whose schemas are known here."""


def manifests() -> list[dict[str, Any]]:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    return [one for name in kustomization["resources"] for one in yaml.load_all((FOLDER / name).read_text(), Loader)]


def outside() -> list[dict[str, Any]]:
    """The services of the overlay, and its patch."""
    files = ("services.yaml", "listener.yaml")
    return [one for name in files for one in yaml.load_all((OUTSIDE / name).read_text(), Loader)]


def of_kind(kind: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in manifests() if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_of_the_schema(version: str) -> None:
    for manifest in manifests() + [one for one in outside() if one["kind"] == "Service"]:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_manifest_with_a_wrong_name_is_found() -> None:
    broken = of_kind("StatefulSet", "odradek")
    broken["spec"]["replica"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[0], strict=True)


def config_of_pod(environment: list[dict[str, Any]]) -> BrokerConfig:
    """The settings of broker 1, as the image's first program reads them.

    Kubernetes fills in a variable where the one of that name stands before.
    """
    fields = {"POD_NAME": "odradek-1", "NAMESPACE": "kafka", "HOST_IP": "10.1.2.3", "KAFKA_BROKER_ID": "1"}
    known: dict[str, str] = {}
    for variable in environment:
        text = variable.get("value") or fields[variable["name"]]
        for name, value in known.items():
            text = text.replace(f"$({name})", value)
        known[variable["name"]] = text
    assert "$(" not in "".join(known.values())
    given = {name: text for name, text in known.items() if name.startswith("KAFKA_")}
    overrides = [f"{name.removeprefix('KAFKA_').lower().replace('_', '.')}={text}" for name, text in given.items()]
    return load_config(str(FOLDER / "server.properties"), overrides)


def patched_by_kustomize(base: list[dict[str, Any]], patch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge by name, as Kustomize does: what the patch names stands first, in its order."""
    names = {one["name"] for one in patch}
    return patch + [one for one in base if one["name"] not in names]


def test_a_broker_starts_with_the_settings_of_its_pod() -> None:
    (container,) = of_kind("StatefulSet", "odradek")["spec"]["template"]["spec"]["containers"]
    config = config_of_pod(container["env"])
    (advertised,) = config.advertised_listeners
    assert (config.broker_id, advertised.host, advertised.port) == (1, "odradek-1.odradek-brokers.kafka.svc", 9092)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"kafka": config.listeners[0].port, "metrics": config.metrics_port}
    assert config.metrics_host == "0.0.0.0", "the node's probes come from outside the pod"
    assert any(mount["mountPath"] == str(Path(config.log_dirs[0]).parent) for mount in container["volumeMounts"])


def test_probes_ask_for_what_brokers_answer() -> None:
    (container,) = of_kind("StatefulSet", "odradek")["spec"]["template"]["spec"]["containers"]
    probes = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready"}


def test_one_pod_of_each_kind_may_be_away() -> None:
    for name in ("odradek", "odradek-zookeeper"):
        budget, pods = of_kind("PodDisruptionBudget", name), of_kind("StatefulSet", name)
        assert budget["spec"]["maxUnavailable"] == 1
        assert budget["spec"]["selector"] == pods["spec"]["selector"]
        assert pods["spec"]["selector"]["matchLabels"].items() <= pods["spec"]["template"]["metadata"]["labels"].items()
        services = [one for one in manifests() if one["kind"] == "Service" and one["metadata"]["name"].startswith(name)]
        assert of_kind("Service", pods["spec"]["serviceName"])["spec"]["clusterIP"] == "None" and services


def test_a_pod_takes_nothing_from_services_that_happen_to_be_there() -> None:
    """A Service named kafka-metrics gave every pod KAFKA_METRICS_PORT=tcp://…, and no broker started."""
    for name in ("odradek", "odradek-zookeeper"):
        assert of_kind("StatefulSet", name)["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_zookeeper_keeps_the_logging_settings_of_its_image() -> None:
    """They are in /conf, which was an empty volume: each request was logged then, at DEBUG."""
    (container,) = of_kind("StatefulSet", "odradek-zookeeper")["spec"]["template"]["spec"]["containers"]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/data", "/datalog", "/logs"}


def test_the_overlay_lies_beside_its_base() -> None:
    """It lay in it, and `kubectl apply -k` ended with "cycle detected"."""
    kustomization = yaml.safe_load((OUTSIDE / "kustomization.yaml").read_text())
    base, *own = ((OUTSIDE / name).resolve() for name in kustomization["resources"])
    assert base == FOLDER.resolve() and base not in OUTSIDE.resolve().parents
    assert all(path.is_file() and path.parent == OUTSIDE.resolve() for path in own)


def test_from_outside_each_broker_is_a_port_of_its_node() -> None:
    (container,) = of_kind("StatefulSet", "odradek")["spec"]["template"]["spec"]["containers"]
    *services, patch = outside()
    (patched,) = patch["spec"]["template"]["spec"]["containers"]
    assert (patch["metadata"]["name"], patched["name"]) == ("odradek", container["name"])
    config = config_of_pod(patched_by_kustomize(container["env"], patched["env"]))
    (_, advertised), (_, listener) = config.advertised_listeners, config.listeners
    own = services[config.broker_id]
    assert own["spec"]["selector"] == {"statefulset.kubernetes.io/pod-name": "odradek-1"}
    assert (advertised.host, advertised.port) == ("10.1.2.3", own["spec"]["ports"][0]["nodePort"])
    assert listener.port == own["spec"]["ports"][0]["port"] == patched["ports"][0]["containerPort"]
