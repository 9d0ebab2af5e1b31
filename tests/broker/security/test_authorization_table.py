"""Every API, asked by principals that may do nothing, one thing, or all: answered as Kafka 3.9.1 answers them.

Kafka's answers are in kafka_answers.json; tests/witness/test_authorization_beside_kafka.py has recorded them and keeps
them true.
"""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.broker.network.outcomes import RequestContext, Silent
from odradek.broker.requests.authorization.table import TABLE, authorized, rows
from odradek.broker.requests.registry import HANDLERS
from odradek.broker.security.acls import AclFilter
from odradek.protocol.fields import Struct
from odradek.protocol.headers import API_NAMES
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.testing.authorization_cases import CASES
from odradek.testing.authorization_record import HOSTS, PRINCIPALS, access_lists, observed, preparation, succeeded
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

BROKER = "broker-0"
RECORD = json.loads((Path(__file__).parent / "kafka_answers.json").read_text())
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:nobody;User:somebody",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
}


EXPLAINED = {
    "OffsetFetch, old": "Up to version 1 the answer has no error of its own: ours has it with each partition that was "
    "asked for, as the protocol says. Kafka leaves them out, and the client takes that for no offset.",
}
"""Cases that Kafka answers otherwise."""


def kafkas(case: str) -> dict[str, list[str]]:
    return {principal: one["answer"] for one in RECORD[case] for principal in one["principals"]}


async def cluster_with_access_lists(clock: VirtualClock) -> EmbeddedCluster:
    """Make a cluster, not started yet, whose ZooKeeper has the access lists of all cases."""
    cluster = EmbeddedCluster(clock, overrides=SETTINGS)
    writer = cluster.zookeeper.connect()
    await writer.start(1000)
    for path, data in access_lists(BROKER).items():
        await writer.create(path, data, parents=True)
    return cluster


async def ask_all(clock: VirtualClock) -> dict[str, dict[str, list[str]]]:
    cluster = await cluster_with_access_lists(clock)
    async with cluster:

        def connect(host: str) -> Peer:
            return Peer(cluster.network.host(host), clock, BROKER, cluster.port, "raw")

        administrator = connect(BROKER)
        for request, version in preparation():
            while not succeeded(await administrator.request(request, version, 60_000)):
                await asyncio.sleep(0.1)
        peers = {name: connect(host) for name, host in HOSTS.items()}
        found: dict[str, dict[str, list[str]]] = {}
        for case in (one for one in CASES if one.make(0).API_KEY in HANDLERS):
            found[case.label] = {}
            for number, (principal, lines) in enumerate(PRINCIPALS.items()):
                if case.only(lines):
                    answer: Any = None
                    try:
                        answer = await peers[principal].request(case.make(number), case.version, 60_000)
                    except BrokerUnreachable:
                        peers[principal] = connect(HOSTS[principal])
                    found[case.label][principal] = observed(answer)
        return found


def test_every_api_answers_every_principal_as_kafka_does() -> None:
    found = run_virtual(ask_all)
    differences = [
        (case, principal, sorted(set(lines) ^ set(kafkas(case)[principal])))
        for case, by_principal in found.items()
        for principal, lines in by_principal.items()
        if case not in EXPLAINED and lines != kafkas(case)[principal]
    ]
    assert not differences, "\n".join(map(str, differences))
    refused = [f"topics[{topic}].partitions[0].error_code=30" for topic in ("missing", "other", "p-x", "t")]
    assert found["OffsetFetch, old"]["nothing"] == refused


def test_every_api_that_is_served_is_in_the_table() -> None:
    assert HANDLERS.keys() <= TABLE.keys(), [API_NAMES[key] for key in HANDLERS.keys() - TABLE.keys()]


def test_every_api_in_the_table_has_a_case() -> None:
    """All but those whose rules are empty, and those of SCRAM, which have theirs in test_user_scram_credentials.py.

    Those of tokens are refused here to everybody, as nobody has authenticated: test_delegation_tokens.py has the rest.
    """
    asked = {case.make(0).API_KEY for case in CASES} | {50, 51}
    assert {key for key, rules in TABLE.items() if rules and key in HANDLERS} <= asked


def test_the_page_shows_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "authorization.md").read_text()
    missing = [row for row in rows() if row not in page]
    assert not missing, "\n".join(missing)
    assert page.count("\n| ") == len(rows()) + 1


def test_a_denied_produce_without_an_answer_ends_the_connection_and_credentials_are_kept() -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = await cluster_with_access_lists(clock)
        async with cluster:
            services = cluster.brokers[0].server.services
            assert services.authorizer is not None
            host = HOSTS["nothing"]
            context = RequestContext(9, "c", f"{host}:1", "PLAINTEXT")
            produce = authorized(HANDLERS[0].handle, 0, services.authorizer)
            request: Any = next(case for case in CASES if case.label == "Produce").make(0)
            request.acks = 0
            assert produce(services, request, context) == Silent(close=True)
            request = next(case for case in CASES if case.label == "Produce in a transaction").make(0)
            request.acks = 0
            assert produce(services, request, context) == Silent(close=True)
            describe = authorized(HANDLERS[50].handle, 50, services.authorizer)
            refused: Any = describe(services, DescribeUserScramCredentialsRequest(users=None), context)
            assert refused.response.error_code == 31
            while not services.controller.is_active:
                await asyncio.sleep(0.1)
            alter = authorized(HANDLERS[51].handle, 51, services.authorizer)
            deletion = ScramCredentialDeletion(name="u", mechanism=1)
            refused = alter(services, AlterUserScramCredentialsRequest(deletions=[deletion]), context)
            assert [(one.user, one.error_code) for one in refused.response.results] == [("u", 31)]

    run_virtual(main)


def test_a_type_without_settings_has_all_refused_whoever_asks() -> None:
    """A resource that nobody may describe was answered with that beside it; Kafka looks at the types first."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, overrides=SETTINGS) as cluster:
            peer = Peer(cluster.network.host(HOSTS["nothing"]), clock, BROKER, cluster.port, "raw")
            for kinds, errors in (((2, 4), [29, 31]), ((2, 4, 64), [42, 42, 42]), ((32, 2), [42, 42])):
                resources = [DescribeConfigsResource(resource_type=kind, resource_name="0") for kind in kinds]
                answer: Any = await peer.request(DescribeConfigsRequest(resources=resources), 4, 60_000)
                assert [one.resource_type for one in answer.results] == list(kinds)
                assert [one.error_code for one in answer.results] == errors

    run_virtual(main)


def test_a_refusal_is_in_words_where_kafka_has_words() -> None:
    """Tools showed `CLUSTER_AUTHORIZATION_FAILED: 0: CLUSTER_AUTHORIZATION_FAILED`."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, overrides=SETTINGS) as cluster:
            peer = Peer(cluster.network.host(HOSTS["nothing"]), clock, BROKER, cluster.port, "raw")
            resources = [DescribeConfigsResource(resource_type=kind, resource_name="0") for kind in (2, 4)]
            answer: Any = await peer.request(DescribeConfigsRequest(resources=resources), 4, 60_000)
            said = [one.error_message for one in answer.results]
            for kind in (0, 1):
                found: Any = await peer.request(FindCoordinatorRequest(key="x", key_type=kind), 3, 60_000)
                said.append(found.error_message)
            words = ("Topic", "Cluster", "Group", "Transactional Id")
            assert said == [f"{what} authorization failed." for what in words]

    run_virtual(main)


def without_words(answer: Any) -> list[str]:
    """Return where in an answer an error stands with an empty message."""
    if isinstance(answer, list):
        return [path for one in answer for path in without_words(one)]
    if not isinstance(answer, Struct):
        return []
    inside = [path for line in answer.FIELDS for path in without_words(getattr(answer, line.name))]
    wordless = getattr(answer, "error_code", 0) and getattr(answer, "error_message", None) == ""
    return [type(answer).__name__, *inside] if wordless else inside


def test_no_refusal_has_an_empty_message() -> None:
    """Java's tools showed `TopicAuthorizationException:` and nothing behind it: they have words only for a null."""

    async def main(clock: VirtualClock) -> None:
        cluster = await cluster_with_access_lists(clock)
        async with cluster:
            found: dict[str, list[str]] = {}
            for case in (one for one in CASES if one.make(0).API_KEY in HANDLERS):
                peer = Peer(cluster.network.host(HOSTS["nothing"]), clock, BROKER, cluster.port, "raw")
                with suppress(BrokerUnreachable):  # a Produce with acks=0
                    found[case.label] = without_words(await peer.request(case.make(0), case.version, 60_000))
            del found["FindCoordinator of groups"]  # Kafka leaves that of each coordinator empty, too
            assert {label: places for label, places in found.items() if places} == {}
            assert len(found) > 50

    run_virtual(main)


def test_a_session_of_fetches_is_asked_about_each_time() -> None:
    """A right that is taken away while a session lasts."""

    async def main(clock: VirtualClock) -> None:
        cluster = await cluster_with_access_lists(clock)
        async with cluster:
            admin = Peer(cluster.network.host(BROKER), clock, BROKER, cluster.port, "raw")
            reader = Peer(cluster.network.host(HOSTS["READ on TOPIC"]), clock, BROKER, cluster.port, "raw")
            request, version = preparation()[0]
            await admin.request(request, version, 60_000)
            [first] = [case.make(0) for case in CASES if case.label == "Fetch"]
            assert isinstance(first, FetchRequest)
            first.topics, first.session_epoch = first.topics[:1], 0
            opened: Any = await reader.request(first, 11, 60_000)
            assert opened.session_id and opened.responses[0].partitions[0].error_code == 0
            authorizer = cluster.brokers[0].server.services.authorizer
            assert authorizer is not None
            again = FetchRequest(
                replica_id=-1, max_wait_ms=600, min_bytes=1, max_bytes=10_000, session_id=opened.session_id,
                session_epoch=1,
            )  # fmt: skip
            nothing: Any = await reader.request(again, 11, 60_000)
            assert nothing.responses == []
            await authorizer.delete([AclFilter(host=HOSTS["READ on TOPIC"])])
            await asyncio.sleep(1)
            again.session_epoch = 2
            denied: Any = await reader.request(again, 11, 60_000)
            assert [one.error_code for one in denied.responses[0].partitions] == [29]

    run_virtual(main)
