"""The dashboards as a table, and the JSON that Grafana is provisioned with: `python deploy/grafana/dashboards.py`."""

# ruff: noqa: E501 (a query is a line)

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent / "dashboards"
WIDTH, HEIGHT, PER_ROW = 8, 8, 3
SOURCE = {"type": "prometheus", "uid": "prometheus"}


class Panel(NamedTuple):
    """A graph; a single number where `stat`."""

    title: str
    unit: str
    queries: dict[str, str]
    """PromQL by legend."""
    stat: bool = False


def rate(metric: str, by: str = "", labels: str = "") -> str:
    """Rate of a counter over five minutes, summed over all other labels."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({metric}{labels}[5m]))"


B = "kafka_server_brokertopicmetrics_"
R = "kafka_network_requestmetrics_"
BROKER = '{instance=~"$instance"}'
TOPIC = '{topic=~"$topic"}'
GROUP = '{consumergroup=~"$group"}'

BOARDS: dict[str, list[Panel]] = {
    "Cluster": [
        Panel("Brokers", "short", {"registered": "max(kafka_controller_kafkacontroller_activebrokercount)"}, stat=True),
        Panel(
            "Active controllers",
            "short",
            {"": "sum(kafka_controller_kafkacontroller_activecontrollercount)"},
            stat=True,
        ),
        Panel(
            "Partitions without a leader",
            "short",
            {"": "sum(kafka_controller_kafkacontroller_offlinepartitionscount)"},
            stat=True,
        ),
        Panel(
            "Under-replicated partitions",
            "short",
            {"{{instance}}": "kafka_server_replicamanager_underreplicatedpartitions"},
        ),
        Panel(
            "Below min.insync.replicas",
            "short",
            {"{{instance}}": "kafka_server_replicamanager_underminisrpartitioncount"},
        ),
        Panel(
            "At min.insync.replicas", "short", {"{{instance}}": "kafka_server_replicamanager_atminisrpartitioncount"}
        ),
        Panel("Records in", "rec/s", {"{{instance}}": rate(B + "messagesin_total", "instance")}),
        Panel("Bytes in", "Bps", {"{{instance}}": rate(B + "bytesin_total", "instance")}),
        Panel("Bytes out", "Bps", {"{{instance}}": rate(B + "bytesout_total", "instance")}),
        Panel(
            "Replication",
            "Bps",
            {
                "in {{instance}}": rate(B + "replicationbytesin_total", "instance"),
                "out {{instance}}": rate(B + "replicationbytesout_total", "instance"),
            },
        ),
        Panel(
            "Replicas being added",
            "Bps",
            {
                "in {{instance}}": rate(B + "reassignmentbytesin_total", "instance"),
                "out {{instance}}": rate(B + "reassignmentbytesout_total", "instance"),
            },
        ),
        Panel(
            "Changes of in-sync replicas",
            "ops",
            {
                "shrunk {{instance}}": rate("kafka_server_replicamanager_isrshrinks_total", "instance"),
                "grown {{instance}}": rate("kafka_server_replicamanager_isrexpands_total", "instance"),
            },
        ),
        Panel("Leaders", "short", {"{{instance}}": "kafka_server_replicamanager_leadercount"}),
    ],
    "Broker": [
        Panel("Requests", "reqps", {"{{request}}": rate(R + "requests_total", "request", BROKER)}),
        Panel(
            "Errors in answers", "ops", {"{{request}} {{error}}": rate(R + "errors_total", "request, error", BROKER)}
        ),
        Panel(
            "Loop idle",
            "percentunit",
            {"{{instance}}": "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent" + BROKER},
        ),
        Panel(
            "Produce, p99",
            "ms",
            {
                phase: f'max({R}{phase}timems{{instance=~"$instance", request="Produce", quantile="0.99"}})'
                for phase in ("total", "requestqueue", "local", "remote", "responsequeue", "responsesend")
            },
        ),
        Panel(
            "Fetch by consumers, p99",
            "ms",
            {
                phase: f'max({R}{phase}timems{{instance=~"$instance", request="FetchConsumer", quantile="0.99"}})'
                for phase in ("total", "requestqueue", "local", "remote", "responsequeue", "responsesend")
            },
        ),
        Panel(
            "How late the loop is, p99",
            "s",
            {"{{instance}}": 'odradek_loop_lag_seconds{instance=~"$instance", quantile="0.99"}'},
        ),
        Panel(
            "Waiting requests",
            "short",
            {
                "{{delayedOperation}}": "sum by (delayedOperation) (kafka_server_delayedoperationpurgatory_numdelayedoperations"
                + BROKER
                + ")"
            },
        ),
        Panel(
            "Connections",
            "short",
            {"{{instance}} {{listener}}": "kafka_server_socket_server_metrics_connection_count" + BROKER},
        ),
        Panel("Followers' lag", "short", {"{{instance}}": "kafka_server_replicafetchermanager_maxlag" + BROKER}),
        Panel("Memory", "bytes", {"{{instance}}": "process_resident_memory_bytes" + BROKER}),
        Panel("Processor", "percentunit", {"{{instance}}": rate("process_cpu_seconds_total", "instance", BROKER)}),
        Panel(
            "Garbage collection",
            "percentunit",
            {"{{instance}}": rate("jvm_gc_collection_seconds_sum", "instance", BROKER)},
        ),
        Panel(
            "Disk",
            "Bps",
            {
                "read {{instance}}": rate("kafka_server_kafkaserver_linux_disk_read_bytes", "instance", BROKER),
                "written {{instance}}": rate("kafka_server_kafkaserver_linux_disk_write_bytes", "instance", BROKER),
            },
        ),
        Panel(
            "Room in log directories",
            "bytes",
            {"{{instance}} {{log_directory}}": 'odradek_log_volume_bytes{instance=~"$instance", of="usable"}'},
        ),
        Panel("Open files", "short", {"{{instance}}": "process_open_fds" + BROKER}),
    ],
    "Topic": [
        Panel("Records in", "rec/s", {"{{topic}}": rate(B + "messagesin_total", "topic", TOPIC)}),
        Panel("Bytes in", "Bps", {"{{topic}}": rate(B + "bytesin_total", "topic", TOPIC)}),
        Panel("Bytes out", "Bps", {"{{topic}}": rate(B + "bytesout_total", "topic", TOPIC)}),
        Panel("Size on all brokers", "bytes", {"{{topic}}": "sum by (topic) (kafka_log_log_size" + TOPIC + ")"}),
        Panel(
            "Records kept",
            "short",
            {
                "{{topic}}": f"sum by (topic) (kafka_topic_partition_current_offset{TOPIC} - kafka_topic_partition_oldest_offset{TOPIC})"
            },
        ),
        Panel(
            "Replicas in sync", "short", {"{{topic}}-{{partition}}": "kafka_topic_partition_in_sync_replica" + TOPIC}
        ),
        Panel(
            "Failed requests",
            "ops",
            {
                "produce {{topic}}": rate(B + "failedproducerequests_total", "topic", TOPIC),
                "fetch {{topic}}": rate(B + "failedfetchrequests_total", "topic", TOPIC),
            },
        ),
        Panel(
            "Bytes of batches that were too large",
            "Bps",
            {"{{topic}}": rate(B + "bytesrejected_total", "topic", TOPIC)},
        ),
        Panel(
            "Held back by open transactions",
            "short",
            {"{{topic}}-{{partition}}": "kafka_cluster_partition_laststableoffsetlag" + TOPIC},
        ),
    ],
    "Groups": [
        Panel(
            "Lag in records",
            "short",
            {"{{consumergroup}} {{topic}}": f"sum by (consumergroup, topic) (kafka_consumergroup_lag{GROUP})"},
        ),
        Panel(
            "Lag in time",
            "s",
            {"{{consumergroup}} {{topic}}": f"max by (consumergroup, topic) (kafka_consumergroup_lag_seconds{GROUP})"},
        ),
        Panel("Members", "short", {"{{consumergroup}}": "kafka_consumergroup_members" + GROUP}),
        Panel(
            "Commits",
            "ops",
            {
                "{{consumergroup}} {{topic}}": f"sum by (consumergroup, topic) (rate(kafka_consumergroup_current_offset{GROUP}[5m]))"
            },
        ),
        Panel(
            "Groups by state",
            "short",
            {
                state: f"sum(kafka_coordinator_group_groupmetadatamanager_numgroups{state})"
                for state in ("stable", "empty", "preparingrebalance", "completingrebalance", "dead")
            },
        ),
        Panel(
            "Lag by partition",
            "short",
            {"{{consumergroup}} {{topic}}-{{partition}}": "kafka_consumergroup_lag" + GROUP},
        ),
    ],
    "Controller": [
        Panel("Where it is", "short", {"{{instance}}": "kafka_controller_kafkacontroller_activecontrollercount"}),
        Panel("Elections", "ops", {"{{instance}}": rate("odradek_controller_elections_total", "instance")}),
        Panel(
            "Unclean elections",
            "short",
            {"{{instance}}": "kafka_controller_controllerstats_uncleanleaderelections_total"},
        ),
        Panel(
            "Broker changes, p99",
            "ms",
            {"{{instance}}": 'kafka_controller_controllerstats_leaderelectionrateandtimems{quantile="0.99"}'},
        ),
        Panel("Events that wait", "short", {"{{instance}}": "kafka_controller_controllereventmanager_eventqueuesize"}),
        Panel(
            "Requests that wait for brokers",
            "short",
            {"{{broker_id}}": "max by (broker_id) (kafka_controller_controllerchannelmanager_queuesize)"},
        ),
        Panel(
            "Not led by the preferred replica",
            "short",
            {"": "sum(kafka_controller_kafkacontroller_preferredreplicaimbalancecount)"},
        ),
        Panel("Topics being deleted", "short", {"": "sum(kafka_controller_kafkacontroller_topicstodeletecount)"}),
        Panel(
            "ZooKeeper's answers, p99",
            "ms",
            {"{{instance}}": 'kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms{quantile="0.99"}'},
        ),
        Panel(
            "ZooKeeper's sessions",
            "ops",
            {
                "lost connections {{instance}}": rate(
                    "kafka_server_sessionexpirelistener_zookeeperdisconnects_total", "instance"
                ),
                "expired {{instance}}": rate("kafka_server_sessionexpirelistener_zookeeperexpires_total", "instance"),
            },
        ),
    ],
}
VARIABLES = {
    "Broker": ("instance", "label_values(kafka_server_replicamanager_leadercount, instance)"),
    "Topic": ("topic", "label_values(kafka_topic_partition_current_offset, topic)"),
    "Groups": ("group", "label_values(kafka_consumergroup_members, consumergroup)"),
}


def names_in(query: str) -> set[str]:
    """Return the metrics that a query names."""
    return set(re.findall(r"\b(?:kafka|odradek|jvm|process)_\w+", query))


def queries() -> list[str]:
    """List all queries of all dashboards."""
    panels = [query for board in BOARDS.values() for panel in board for query in panel.queries.values()]
    return panels + [query for _, query in VARIABLES.values()]


def dashboard(title: str) -> dict[str, Any]:
    """Make the dashboard of this title, as Grafana wants it."""
    variables = [
        {"name": name, "type": "query", "query": query, "datasource": SOURCE, "refresh": 2, "multi": True,
         "includeAll": True, "current": {"text": "All", "value": "$__all"}}
        for name, query in [VARIABLES[title]] if title in VARIABLES
    ] if title in VARIABLES else []  # fmt: skip
    return {
        "uid": f"odradek-{title.lower()}",
        "title": f"Odradek: {title}",
        "tags": ["odradek", "kafka"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": variables},
        "panels": [_panel(number, panel) for number, panel in enumerate(BOARDS[title])],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, PER_ROW)
    return {
        "id": number + 1,
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend or "__auto"}
            for at, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def render(title: str) -> str:
    """Return the file's text."""
    return json.dumps(dashboard(title), indent=1) + "\n"


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for board in BOARDS:
        (HERE / f"{board.lower()}.json").write_text(render(board))
