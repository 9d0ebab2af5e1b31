// Prints `name hex` for what coordinators and logs write beside records, made by Apache Kafka's own classes.
// Run with the jars of org.apache.kafka:kafka_2.13:3.9.1:   java -cp 'jars/*' Records.java > kafka-3.9.1-records.txt
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.coordinator.transaction.generated.*;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.TransactionIndex;

public class Records {
    static final long TIME = 1_700_000_000_000L;

    static void print(String name, byte[] bytes) {
        StringBuilder hex = new StringBuilder();
        for (byte one : bytes) hex.append(String.format("%02x", one));
        System.out.println(name + " " + hex);
    }

    static void print(String name, ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        print(name, bytes);
    }

    static void print(String name, int version, Message message) {
        print(name + "-v" + version, MessageUtil.toVersionPrefixedBytes((short) version, message));
    }

    static TransactionLogValue transaction(int status, List<TransactionLogValue.PartitionsSchema> partitions) {
        return new TransactionLogValue()
            .setProducerId(4001).setProducerEpoch((short) 3).setTransactionTimeoutMs(60000)
            .setTransactionStatus((byte) status).setTransactionPartitions(partitions)
            .setTransactionLastUpdateTimestampMs(TIME + 5).setTransactionStartTimestampMs(TIME);
    }

    static void transactions() {
        var two = List.of(
            new TransactionLogValue.PartitionsSchema().setTopic("orders").setPartitionIds(List.of(0, 2)),
            new TransactionLogValue.PartitionsSchema().setTopic("__consumer_offsets").setPartitionIds(List.of(49)));
        print("transaction-key", 0, new TransactionLogKey().setTransactionalId("payments-1"));
        for (int version = 0; version <= 1; version++) {
            print("transaction-ongoing", version, transaction(1, two));
            print("transaction-empty", version, transaction(0, null));
        }
    }

    static void offsets() {
        for (int version = 0; version <= 1; version++)
            print("offset-key", version, new OffsetCommitKey().setGroup("readers").setTopic("orders").setPartition(2));
        for (int version = 0; version <= 4; version++)
            print("offset-value", version, new OffsetCommitValue()
                .setOffset(4242).setLeaderEpoch(version >= 3 ? 7 : -1).setMetadata("note").setCommitTimestamp(TIME)
                .setExpireTimestamp(version == 1 ? TIME + 9 : -1));
        print("group-key", 2, new GroupMetadataKey().setGroup("readers"));
        byte[] subscription = bytes(ConsumerProtocol.serializeSubscription(new Subscription(List.of("orders"))));
        byte[] assignment = bytes(ConsumerProtocol.serializeAssignment(
            new Assignment(List.of(new TopicPartition("orders", 0), new TopicPartition("orders", 2)))));
        for (int version = 0; version <= 4; version++)
            print("group-value", version, new GroupMetadataValue()
                .setProtocolType("consumer").setGeneration(5).setProtocol("range").setLeader("member-a")
                .setCurrentStateTimestamp(version >= 2 ? TIME : -1)
                .setMembers(List.of(new GroupMetadataValue.MemberMetadata()
                    .setMemberId("member-a").setGroupInstanceId(version >= 3 ? "one" : null).setClientId("reader")
                    .setClientHost("/10.0.0.1").setRebalanceTimeout(version >= 1 ? 300000 : -1).setSessionTimeout(45000)
                    .setSubscription(subscription).setAssignment(assignment))));
    }

    static void groupsOfTheNewProtocol() {
        print("consumer-group-key", 3, new ConsumerGroupMetadataKey().setGroupId("readers"));
        print("consumer-group-partitions-key", 4, new ConsumerGroupPartitionMetadataKey().setGroupId("readers"));
        print("consumer-group-member-key", 5, new ConsumerGroupMemberMetadataKey().setGroupId("readers").setMemberId("m"));
        print("consumer-group-target-key", 6, new ConsumerGroupTargetAssignmentMetadataKey().setGroupId("readers"));
        print("consumer-group-target-member-key", 7,
            new ConsumerGroupTargetAssignmentMemberKey().setGroupId("readers").setMemberId("m"));
        print("consumer-group-current-key", 8,
            new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("readers").setMemberId("m"));
    }

    static void logs() throws Exception {
        for (ControlRecordType type : List.of(ControlRecordType.ABORT, ControlRecordType.COMMIT))
            print("marker-" + type.name().toLowerCase(), MemoryRecords.withEndTransactionMarker(
                100L, TIME, 6, 4001L, (short) 3, new EndTransactionMarker(type, 11)).buffer());
        File directory = Files.createTempDirectory("records").toFile();
        TransactionIndex index = new TransactionIndex(0, new File(directory, "00000000000000000000.txnindex"));
        index.append(new AbortedTxn(4001, 10, 20, 15));
        index.append(new AbortedTxn(4002, 15, 30, 31));
        index.close();
        print("aborted-index", Files.readAllBytes(index.file().toPath()));
        Map<Long, ProducerStateEntry> producers = new TreeMap<>();
        producers.put(4001L, new ProducerStateEntry(4001, (short) 3, 11, TIME, OptionalLong.of(90),
            Optional.of(new BatchMetadata(1, 99, 3, TIME))));
        producers.put(4002L, new ProducerStateEntry(4002, (short) 0, -1, TIME, OptionalLong.empty(), Optional.empty()));
        File snapshot = new File(directory, "00000000000000000100.snapshot");
        ProducerStateManager.writeSnapshot(snapshot, producers, false);
        print("snapshot", Files.readAllBytes(snapshot.toPath()));
    }

    static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    public static void main(String[] arguments) throws Exception {
        transactions();
        offsets();
        groupsOfTheNewProtocol();
        logs();
    }
}
