"""Apache Kafka 3.9.1's own integration tests, unchanged, with brokers of ours in place of Kafka's.

    python bench/kafkas_tests.py                            # all of CLASSES, which takes long
    python bench/kafkas_tests.py kafka.api.TransactionsTest kafka.api.PlaintextAdminIntegrationTest
    python bench/kafkas_tests.py --kafka kafka.api.TransactionsTest   # the same with Kafka's brokers

The tests come from Maven Central (kafka_2.13-3.9.1-test.jar, and those of Kafka Streams and of Kafka's tools). They
start an embedded ZooKeeper and make their brokers of the class kafka.server.KafkaServer: here that is
kafkas_tests/KafkaServer.scala, which starts a process of ours with the test's settings and tells the tests from outside
what they would look up inside.
Their runs with KRaft, whose brokers are Kafka's own, are left out. Those with Kerberos need odradek[kerberos].

A test that fails although it needs nothing but what brokers do is a difference to look into. Those that need the inside
of Kafka's process, or where ours does otherwise on purpose, are listed with the reason in kafkas_tests/known.txt; the
program fails on others, and on none of those.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import this_tree  # noqa: F401

from odradek.testing.foreign.downloads import COPY_JARS, fetch

HERE = Path(__file__).with_name("kafkas_tests")
CACHE = HERE.parent.parent / ".cache" / "kafkas-tests"
HEAP_MB = 1500
TEST_SECONDS = 300
OPEN_TO_MINI_KDC = tuple(
    f"--add-{how}=java.security.jgss/sun.security.krb5=ALL-UNNAMED" for how in ("exports", "opens")
)
"""Flags without which the tests' own Kerberos server does not start."""

CLASSES = (
    "kafka.api.PlaintextProducerSendTest",
    "kafka.api.ProducerFailureHandlingTest",
    "kafka.api.ProducerIdExpirationTest",
    "kafka.api.ProducerSendWhileDeletionTest",
    "kafka.api.PlaintextConsumerTest",
    "kafka.api.PlaintextConsumerAssignTest",
    "kafka.api.PlaintextConsumerAssignorsTest",
    "kafka.api.PlaintextConsumerCommitTest",
    "kafka.api.PlaintextConsumerFetchTest",
    "kafka.api.PlaintextConsumerPollTest",
    "kafka.api.PlaintextConsumerSubscriptionTest",
    "kafka.api.ConsumerBounceTest",
    "kafka.api.ConsumerTopicCreationTest",
    "kafka.api.GroupAuthorizerIntegrationTest",
    "kafka.api.GroupCoordinatorIntegrationTest",
    "kafka.api.LogAppendTimeTest",
    "kafka.api.RackAwareAutoTopicCreationTest",
    "kafka.api.TransactionsTest",
    "kafka.api.TransactionsBounceTest",
    "kafka.api.TransactionsExpirationTest",
    "kafka.api.TransactionsWithMaxInFlightOneTest",
    "kafka.api.PlaintextAdminIntegrationTest",
    "kafka.api.AuthorizerIntegrationTest",
    "kafka.api.DescribeAuthorizedOperationsTest",
    "kafka.api.DelegationTokenEndToEndAuthorizationTest",
    "kafka.api.DelegationTokenEndToEndAuthorizationWithOwnerTest",
    "kafka.api.SaslGssapiSslEndToEndAuthorizationTest",
    "kafka.api.SaslMultiMechanismConsumerTest",
    "kafka.api.SaslOAuthBearerSslEndToEndAuthorizationTest",
    "kafka.api.SaslPlainPlaintextConsumerTest",
    "kafka.api.SaslScramSslEndToEndAuthorizationTest",
    "kafka.api.SaslSslAdminIntegrationTest",
    "kafka.api.SaslClientsWithInvalidCredentialsTest",
    "kafka.api.SaslPlaintextConsumerTest",
    "kafka.api.SaslSslConsumerTest",
    "kafka.api.SslConsumerTest",
    "kafka.api.SslProducerSendTest",
    "kafka.api.test.ProducerCompressionTest",
    "integration.kafka.admin.AdminFenceProducersIntegrationTest",
    "integration.kafka.api.PlaintextConsumerCallbackTest",
    "kafka.integration.MinIsrConfigTest",
    "kafka.integration.UncleanLeaderElectionTest",
    "kafka.admin.AddPartitionsTest",
    "kafka.admin.BrokerApiVersionsCommandTest",
    "kafka.admin.DeleteTopicTest",
    "kafka.admin.ListOffsetsIntegrationTest",
    "kafka.admin.AclCommandTest",
    "kafka.admin.ConfigCommandIntegrationTest",
    "kafka.admin.UserScramCredentialsCommandTest",
    "kafka.server.AddPartitionsToTxnRequestServerTest",
    "kafka.server.AdvertiseBrokerTest",
    "kafka.server.AlterReplicaLogDirsRequestTest",
    "kafka.server.AlterUserScramCredentialsRequestNotAuthorizedTest",
    "kafka.server.AlterUserScramCredentialsRequestTest",
    "kafka.server.ApiVersionsRequestTest",
    "kafka.server.ClientQuotasRequestTest",
    "kafka.server.ControllerMutationQuotaTest",
    "kafka.server.CreateTopicsRequestTest",
    "kafka.server.DelegationTokenRequestsOnPlainTextTest",
    "kafka.server.DelegationTokenRequestsTest",
    "kafka.server.DelegationTokenRequestsWithDisableTokenFeatureTest",
    "kafka.server.DeleteGroupsRequestTest",
    "kafka.server.DeleteRecordsRequestTest",
    "kafka.server.DeleteTopicsRequestTest",
    "kafka.server.DeleteTopicsRequestWithDeletionDisabledTest",
    "kafka.server.DescribeClusterRequestTest",
    "kafka.server.DescribeGroupsRequestTest",
    "kafka.server.DescribeUserScramCredentialsRequestNotAuthorizedTest",
    "kafka.server.DescribeUserScramCredentialsRequestTest",
    "kafka.server.DynamicBrokerReconfigurationTest#testConfigDescribeUsingAdminClient(java.lang.String)",
    "kafka.server.DynamicBrokerReconfigurationTest#testKeyStoreAlter(java.lang.String)",
    "kafka.server.DynamicBrokerReconfigurationTest#testUncleanLeaderElectionEnable()",
    "kafka.server.EdgeCaseRequestTest",
    "kafka.server.FetchFromFollowerIntegrationTest",
    "kafka.server.FetchRequestDownConversionConfigTest",
    "kafka.server.FetchRequestMaxBytesTest",
    "kafka.server.FetchRequestTest",
    "kafka.server.GssapiAuthenticationTest",
    "kafka.server.HeartbeatRequestTest",
    "kafka.server.JoinGroupRequestTest",
    "kafka.server.LeaderElectionTest",
    "kafka.server.LeaveGroupRequestTest",
    "kafka.server.ListGroupsRequestTest",
    "kafka.server.ListOffsetsRequestTest",
    "kafka.server.MetadataRequestTest",
    "kafka.server.OffsetCommitRequestTest",
    "kafka.server.OffsetDeleteRequestTest",
    "kafka.server.OffsetFetchRequestTest",
    "kafka.server.OffsetsForLeaderEpochRequestTest",
    "kafka.server.ProduceRequestTest",
    "kafka.server.ReplicaFetchTest",
    "kafka.server.ReplicationQuotasTest",
    "kafka.server.RequestQuotaTest",
    "kafka.server.SaslApiVersionsRequestTest",
    "kafka.server.SyncGroupRequestTest",
    "kafka.server.UpdateFeaturesTest",
    "kafka.server.epoch.EpochDrivenReplicationProtocolAcceptanceTest",
    "kafka.server.epoch.LeaderEpochIntegrationTest",
    "kafka.tools.MirrorMakerIntegrationTest",
    "org.apache.kafka.streams.integration.ConsistencyVectorIntegrationTest",
    "org.apache.kafka.streams.integration.EOSUncleanShutdownIntegrationTest",
    "org.apache.kafka.streams.integration.EmitOnChangeIntegrationTest",
    "org.apache.kafka.streams.integration.EosIntegrationTest",
    "org.apache.kafka.streams.integration.EosV2UpgradeIntegrationTest",
    "org.apache.kafka.streams.integration.FineGrainedAutoResetIntegrationTest",
    "org.apache.kafka.streams.integration.GlobalKTableEOSIntegrationTest",
    "org.apache.kafka.streams.integration.GlobalKTableIntegrationTest",
    "org.apache.kafka.streams.integration.GlobalStateReprocessTest",
    "org.apache.kafka.streams.integration.GlobalThreadShutDownOrderTest",
    "org.apache.kafka.streams.integration.HighAvailabilityTaskAssignorIntegrationTest",
    "org.apache.kafka.streams.integration.InternalTopicIntegrationTest",
    "org.apache.kafka.streams.integration.JoinGracePeriodDurabilityIntegrationTest",
    "org.apache.kafka.streams.integration.JoinStoreIntegrationTest",
    "org.apache.kafka.streams.integration.JoinWithIncompleteMetadataIntegrationTest",
    "org.apache.kafka.streams.integration.KStreamAggregationDedupIntegrationTest",
    "org.apache.kafka.streams.integration.KStreamAggregationIntegrationTest",
    "org.apache.kafka.streams.integration.KStreamKStreamIntegrationTest",
    "org.apache.kafka.streams.integration.KStreamRepartitionIntegrationTest",
    "org.apache.kafka.streams.integration.KTableKTableForeignKeyInnerJoinCustomPartitionerIntegrationTest",
    "org.apache.kafka.streams.integration.KTableKTableForeignKeyInnerJoinMultiIntegrationTest",
    "org.apache.kafka.streams.integration.KTableKTableForeignKeyJoinDistributedTest",
    "org.apache.kafka.streams.integration.KTableSourceTopicRestartIntegrationTest",
    "org.apache.kafka.streams.integration.KafkaStreamsCloseOptionsIntegrationTest",
    "org.apache.kafka.streams.integration.LagFetchIntegrationTest",
    "org.apache.kafka.streams.integration.MetricsIntegrationTest",
    "org.apache.kafka.streams.integration.MetricsReporterIntegrationTest",
    "org.apache.kafka.streams.integration.NamedTopologyIntegrationTest",
    "org.apache.kafka.streams.integration.OptimizedKTableIntegrationTest",
    "org.apache.kafka.streams.integration.PauseResumeIntegrationTest",
    "org.apache.kafka.streams.integration.PositionRestartIntegrationTest",
    "org.apache.kafka.streams.integration.PurgeRepartitionTopicIntegrationTest",
    "org.apache.kafka.streams.integration.QueryableStateIntegrationTest",
    "org.apache.kafka.streams.integration.RangeQueryIntegrationTest",
    "org.apache.kafka.streams.integration.RebalanceIntegrationTest",
    "org.apache.kafka.streams.integration.RegexSourceIntegrationTest",
    "org.apache.kafka.streams.integration.ResetIntegrationTest",
    "org.apache.kafka.streams.integration.ResetIntegrationWithSslTest",
    "org.apache.kafka.streams.integration.ResetPartitionTimeIntegrationTest",
    "org.apache.kafka.streams.integration.RestoreIntegrationTest",
    "org.apache.kafka.streams.integration.RocksDBMetricsIntegrationTest",
    "org.apache.kafka.streams.integration.SelfJoinUpgradeIntegrationTest",
    "org.apache.kafka.streams.integration.SlidingWindowedKStreamIntegrationTest",
    "org.apache.kafka.streams.integration.SmokeTestDriverIntegrationTest",
    "org.apache.kafka.streams.integration.StandbyTaskCreationIntegrationTest",
    "org.apache.kafka.streams.integration.StandbyTaskEOSIntegrationTest",
    "org.apache.kafka.streams.integration.StandbyTaskEOSMultiRebalanceIntegrationTest",
    "org.apache.kafka.streams.integration.StateDirectoryIntegrationTest",
    "org.apache.kafka.streams.integration.StoreQueryIntegrationTest",
    "org.apache.kafka.streams.integration.StoreUpgradeIntegrationTest",
    "org.apache.kafka.streams.integration.StreamTableJoinTopologyOptimizationIntegrationTest",
    "org.apache.kafka.streams.integration.StreamsUncaughtExceptionHandlerIntegrationTest",
    "org.apache.kafka.streams.integration.StreamsUpgradeTestIntegrationTest",
    "org.apache.kafka.streams.integration.SuppressionDurabilityIntegrationTest",
    "org.apache.kafka.streams.integration.SuppressionIntegrationTest",
    "org.apache.kafka.streams.integration.TaskAssignorIntegrationTest",
    "org.apache.kafka.streams.integration.TaskMetadataIntegrationTest",
    "org.apache.kafka.streams.integration.TimeWindowedKStreamIntegrationTest",
    "org.apache.kafka.streams.integration.VersionedKeyValueStoreIntegrationTest",
    "org.apache.kafka.tools.DeleteRecordsCommandTest",
    "org.apache.kafka.tools.DelegationTokenCommandTest",
    "org.apache.kafka.tools.GetOffsetShellTest",
    "org.apache.kafka.tools.LeaderElectionCommandTest",
    "org.apache.kafka.tools.TopicCommandIntegrationTest",
    "org.apache.kafka.tools.consumer.group.AuthorizerIntegrationTest",
    "org.apache.kafka.tools.consumer.group.DeleteConsumerGroupsTest",
    "org.apache.kafka.tools.consumer.group.DeleteOffsetsConsumerGroupCommandIntegrationTest",
    "org.apache.kafka.tools.consumer.group.DescribeConsumerGroupTest",
    "org.apache.kafka.tools.consumer.group.ListConsumerGroupTest",
    "org.apache.kafka.tools.consumer.group.ResetConsumerGroupOffsetTest",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommandTest",
)


class Outcome(NamedTuple):
    """How one run of one test has ended."""

    test: str
    """`Class.method`, without packages and parameters."""
    run: str
    """What tells the runs of a test apart."""
    failure: str | None


def main() -> None:
    """Run the tests and print what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "classes", nargs="*", metavar="CLASS", help="tests' classes with their packages, or CLASS#METHOD(TYPES)"
    )
    parser.add_argument("--kafka", action="store_true", help="Kafka's own brokers, for comparison")
    arguments = parser.parse_args()
    jars = fetch(CACHE, "pom.xml", (HERE / "pom.xml").read_text(), COPY_JARS) / "jars"
    with tempfile.TemporaryDirectory(prefix="kafkas-tests-") as directory:
        command = java(jars, Path(directory), with_ours=not arguments.kafka)
        for name in arguments.classes or CLASSES:
            command += ["--select-method" if "#" in name else "--select-class", name]
        with (Path(directory) / "said").open("w") as said:
            subprocess.run(command, cwd=directory, stdout=said, stderr=subprocess.STDOUT, check=False)
        report_file = Path(directory) / "TEST-junit-jupiter.xml"
        if not report_file.exists():
            lines = (Path(directory) / "said").read_text().splitlines()
            sys.exit("\n".join(line for line in lines if not line.startswith("\tat "))[:3000])
        outcomes = list(read_outcomes(report_file))
    sys.exit(report(outcomes, known_differences()))


def java(jars: Path, directory: Path, *, with_ours: bool) -> list[str]:
    """Return the command that runs JUnit, without the tests' names; reports and logs go to the directory."""
    found = [*map(str, sorted(jars.glob("*.jar")))]
    if with_ours:
        found.insert(0, str(compiled(found)))
    broker = f"{sys.executable} {HERE / 'broker.py'}"
    return [
        "java", f"-Xmx{HEAP_MB}m", *OPEN_TO_MINI_KDC, f"-Dodradek.command={broker}", f"-Dodradek.logs={directory}",
        f"-Djava.io.tmpdir={directory}",
        f"-Djunit.jupiter.execution.timeout.testable.method.default={TEST_SECONDS}s",
        "-cp", os.pathsep.join(found), "org.junit.platform.console.ConsoleLauncher", "execute",
        "--disable-banner", "--reports-dir", str(directory),
    ]  # fmt: skip


def compiled(jars: Sequence[str]) -> Path:
    """Return the folder with the compiled stand-ins."""
    sources = sorted(HERE.glob("*.scala"))
    classes = CACHE / f"classes-{sha256(b''.join(one.read_bytes() for one in sources)).hexdigest()[:12]}"
    if not classes.is_dir():
        beside = classes.with_suffix(".part")
        beside.mkdir(exist_ok=True)
        path = os.pathsep.join(jars)
        scalac = ["java", "-cp", path, "scala.tools.nsc.Main", "-nowarn", "-cp", path, "-d", str(beside)]
        subprocess.run([*scalac, *map(str, sources)], check=True)
        beside.rename(classes)
    return classes


def read_outcomes(file: Path) -> Iterator[Outcome]:
    """Read JUnit's report. Runs that were left out, those with KRaft, are not in it."""
    for case in ElementTree.parse(file).iter("testcase"):
        output = case.findtext("system-out") or ""
        run = next(
            (line.partition(":")[2].strip() for line in output.splitlines() if line.startswith("display-name")), ""
        )
        if case.find("skipped") is not None or "kraft" in run.lower() or "Type=Raft" in run:
            continue
        faults = [*case.iter("failure"), *case.iter("error")]
        told = [one.get("message") or one.get("type") or "no reason" for one in faults]
        # The stand-in's client of ZooKeeper may end a moment after the test. With some before it, a test has not run.
        told = [one for one in told if "unexpected threads during @After" not in one]
        test = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').partition('(')[0]}"
        yield Outcome(test, run, told[0] if told else None)


def known_differences() -> dict[str, str]:
    """Return the reasons by pattern of tests."""
    lines = (line for line in (HERE / "known.txt").read_text().splitlines() if line and not line.startswith("#"))
    return {pattern: reason.strip() for pattern, _, reason in (line.partition(" ") for line in lines)}


def report(outcomes: Sequence[Outcome], known: Mapping[str, str]) -> int:
    """Print what failed, and a line for all; return the exit code."""
    passed = [one for one in outcomes if one.failure is None]
    expected = unexpected = 0
    for one in outcomes:
        if one.failure is None:
            continue
        reason = next((why for pattern, why in known.items() if fnmatchcase(one.test, pattern)), None)
        expected += reason is not None
        unexpected += reason is None
        said = one.failure.splitlines()[0][:300] if one.failure else ""
        print(f"{one.test} {one.run}\n    {f'as known: {reason}' if reason else said}")
    print(f"{len(passed)} passed, {expected} failed as known, {unexpected} failed otherwise")
    return 1 if unexpected or not outcomes else 0


if __name__ == "__main__":
    main()
