"""The manifests here and in kubernetes-outside, made of the Helm chart: `python deploy/kubernetes/render.py`.

What the chart says is said here too, in the same words, for whoever has kubectl and no Helm. Not made are the two files
kustomization.yaml: they say which image, and have the settings as a file that is yours to change.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from odradek.testing.foreign.helm import Helm

HERE = Path(__file__).parent
CHART = HERE.parent / "helm"
MADE = "# Made from deploy/helm by deploy/kubernetes/render.py: change it there.\n"
SOURCE = re.compile(r"^# Source: odradek/templates/(\w+)\.yaml\n", re.MULTILINE)
OUTSIDE: dict[str, Any] = {"outside": {"type": "NodePort"}}
GIVEN = {"existingConfigMap": "odradek"}
"""The kustomization makes it: with a name that changes with its contents."""


def render(helm: Helm, values: dict[str, Any]) -> dict[str, list[str]]:
    """Return the documents that the chart gives, as texts, by the template's name."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values, file)
        file.flush()
        text = helm.template(CHART, Path(file.name))
    found: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", text, flags=re.MULTILINE):
        if source := SOURCE.match(document):
            found.setdefault(source[1], []).append(document[source.end() :].strip() + "\n")
    return found


def files(helm: Helm) -> dict[str, str]:
    """Return the texts of this folder's files by their paths."""
    alone, outside = render(helm, GIVEN), render(helm, GIVEN | OUTSIDE)
    (settings,) = (yaml.safe_load(text) for text in render(helm, {})["settings"])
    patch = yaml.safe_dump(_patch(_brokers(alone), _brokers(outside)), sort_keys=False, width=200)
    return {
        "brokers.yaml": MADE + "---\n".join(alone["brokers"]),
        "zookeeper.yaml": MADE + "---\n".join(alone["zookeeper"]),
        "server.properties": settings["data"]["server.properties"],
        "../kubernetes-outside/services.yaml": MADE + "---\n".join(outside["outside"]),
        "../kubernetes-outside/listener.yaml": MADE + patch,
    }


def _brokers(found: dict[str, list[str]]) -> dict[str, Any]:
    (one,) = (one for one in map(yaml.safe_load, found["brokers"]) if one["kind"] == "StatefulSet")
    return dict(one)


def _patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return what makes one StatefulSet of the other: variables and ports of the broker's container.

    All variables, and not only the new ones: Kustomize puts those of a patch before the others, and Kubernetes fills in
    $(POD_NAME) only behind the variable of that name.
    """
    ((old,), (new,)) = (one["spec"]["template"]["spec"]["containers"] for one in (before, after))
    ports = [one for one in new["ports"] if one not in old["ports"]]
    container = {"name": new["name"], "env": new["env"], "ports": ports}
    return {
        "apiVersion": after["apiVersion"],
        "kind": after["kind"],
        "metadata": {"name": after["metadata"]["name"]},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def main() -> int:
    for name, text in files(Helm(HERE.parents[1] / ".cache" / "helm")).items():
        (HERE / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
