// Kafka's own Java client behind the line protocol of odradek/testing/foreign/driver.py. Argument: bootstrap.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Driver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final long DEADLINE_MS = 150_000;
    static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer;
            try {
                answer = act(JSON.readTree(line));
            } catch (Throwable failure) {
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace));
                answer = JSON.createObjectNode().put("error", trace.toString());
            }
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
        System.exit(0);
    }

    static ObjectNode act(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "produce": return produce(command);
            case "consume": return consume(command.get("topic").asText(), command.get("count").asInt());
            case "join": return join(command);
            case "look": return members.get(command.get("member").asText()).look();
            case "leave": return members.get(command.get("member").asText()).leave();
            case "create": return AdminScenario.create(command.get("topic").asText());
            case "admin": return AdminScenario.run(command.get("topic").asText(), command.get("group").asText());
            default: throw new IllegalArgumentException(command.toString());
        }
    }

    static Map<String, Object> settings(Object... pairs) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        for (int at = 0; at < pairs.length; at += 2) settings.put((String) pairs[at], pairs[at + 1]);
        return settings;
    }

    static byte[] unpack(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String pack(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }

    static ObjectNode produce(JsonNode command) throws Exception {
        Map<String, Object> settings = settings("compression.type", command.get("codec").asText(), "acks", "all",
                "linger.ms", 20, "enable.idempotence", command.get("idempotent").asBoolean());
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode record : command.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode header : record.get(2)) headers.add(new RecordHeader(header.get(0).asText(), unpack(header.get(1))));
                sent.add(producer.send(new ProducerRecord<>(command.get("topic").asText(), 0, record.get(3).asLong(),
                        unpack(record.get(0)), unpack(record.get(1)), headers)));
            }
            producer.flush();
        }
        for (Future<RecordMetadata> one : sent) one.get();
        return JSON.createObjectNode();
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> settings) {
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static ObjectNode consume(String topic, int count) {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode records = answer.putArray("records");
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        try (var consumer = consumer(settings("enable.auto.commit", false))) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            while (records.size() < count) {
                if (System.currentTimeMillis() > deadline) throw new IllegalStateException(records.size() + " records of " + count);
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    if (records.size() == count) break;
                    ArrayNode row = records.addArray().add(pack(record.key())).add(pack(record.value()));
                    ArrayNode headers = row.addArray();
                    for (Header header : record.headers()) headers.addArray().add(header.key()).add(pack(header.value()));
                    row.add(record.timestamp());
                }
            }
        }
        return answer;
    }

    static final Map<String, Member> members = new HashMap<>();

    static ObjectNode join(JsonNode command) {
        Member member = new Member(
                command.get("group").asText(), command.get("topic").asText(), command.get("strategy").asText("cooperative-sticky"));
        members.put(command.get("member").asText(), member);
        member.start();
        return JSON.createObjectNode();
    }

    /** A consumer of a group in a thread of its own. */
    static class Member extends Thread implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;
        final Set<Integer> held = new TreeSet<>();
        final ArrayNode received = JSON.createArrayNode();
        volatile boolean stopped;
        Throwable failure;

        static final Map<String, String> ASSIGNORS = Map.of("range", "Range", "roundrobin", "RoundRobin",
                "sticky", "Sticky", "cooperative-sticky", "CooperativeSticky");

        Member(String group, String topic, String strategy) {
            consumer = consumer(settings("group.id", group, "heartbeat.interval.ms", 300, "session.timeout.ms", 10_000,
                    "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + ASSIGNORS.get(strategy) + "Assignor"));
            consumer.subscribe(List.of(topic), this);
        }

        @Override public void run() {
            try (consumer) {
                while (!stopped) {
                    var records = consumer.poll(Duration.ofMillis(100));
                    synchronized (this) {
                        for (var record : records) received.addArray().add(record.partition()).add(record.offset());
                    }
                }
            } catch (Throwable thrown) {
                failure = thrown;
            }
        }

        @Override public synchronized void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            for (TopicPartition partition : partitions) held.add(partition.partition());
        }

        @Override public synchronized void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            for (TopicPartition partition : partitions) held.remove(partition.partition());
        }

        synchronized ObjectNode look() {
            if (failure != null) throw new IllegalStateException(failure);
            ObjectNode answer = JSON.createObjectNode();
            ArrayNode assignment = answer.putArray("assignment");
            for (int partition : held) assignment.add(partition);
            answer.set("received", received.deepCopy());
            return answer;
        }

        ObjectNode leave() throws InterruptedException {
            stopped = true;
            join(DEADLINE_MS);
            if (isAlive()) throw new IllegalStateException("does not close");
            return JSON.createObjectNode();
        }
    }

    /** Everything the AdminClient is asked for, in one run. */
    static class AdminScenario {
        /** Records of a week ago would be deleted. */
        static final long FIRST_MS = System.currentTimeMillis() - 3_600_000;

        static ObjectNode create(String topic) throws Exception {
            ObjectNode found = JSON.createObjectNode();
            try (Admin admin = Admin.create(settings())) {
                var created = admin.createTopics(List.of(new NewTopic(topic, Optional.of(2), Optional.empty()).configs(Map.of("retention.ms", "3600000"))));
                created.all().get();
                found.put("createdPartitions", created.numPartitions(topic).get());
                found.put("createdId", created.topicId(topic).get().toString());
                found.put("createdAgain", failure(() -> admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get()));
                admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            }
            return found;
        }

        /** Of a topic that every broker knows. */
        static ObjectNode run(String topic, String group) throws Exception {
            ObjectNode found = JSON.createObjectNode();
            try (Admin admin = Admin.create(settings())) {
                topics(admin, topic, found);
                configs(admin, topic, found);
                offsets(admin, topic, group, found);
                partitions(admin, topic, found);
                admin.deleteTopics(List.of(topic)).all().get();
            }
            return found;
        }

        static void topics(Admin admin, String topic, ObjectNode found) throws Exception {
            found.put("listed", admin.listTopics().names().get().contains(topic));
            var description = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            found.put("partitions", description.partitions().size());
            found.put("topicId", description.topicId().toString());
            found.put("missing", failure(() -> admin.describeTopics(List.of("missing-" + topic)).allTopicNames().get()));
            var cluster = admin.describeCluster();
            found.put("brokers", cluster.nodes().get().size());
            found.put("controller", cluster.controller().get().id());
        }

        static void configs(Admin admin, String topic, ObjectNode found) throws Exception {
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            found.put("retention", value(admin, resource, "retention.ms"));
            admin.incrementalAlterConfigs(Map.of(resource, List.of(
                    new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET)))).all().get();
            found.put("retentionAltered", value(admin, resource, "retention.ms"));
            found.put("badConfig", failure(() -> admin.incrementalAlterConfigs(Map.of(resource, List.of(
                    new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET)))).all().get()));
            var broker = new ConfigResource(ConfigResource.Type.BROKER, "0");
            found.put("brokerId", value(admin, broker, "broker.id"));
        }

        static String value(Admin admin, ConfigResource resource, String name) throws Exception {
            return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
        }

        static void offsets(Admin admin, String topic, String group, ObjectNode found) throws Exception {
            var first = new TopicPartition(topic, 0);
            try (var producer = new KafkaProducer<>(settings(), new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int number = 0; number < 3; number++) producer.send(new ProducerRecord<>(topic, 0, FIRST_MS + number, null, new byte[] {1})).get();
            }
            for (var asked : Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(),
                    "maxTimestamp", OffsetSpec.maxTimestamp(), "atTimestamp", OffsetSpec.forTimestamp(FIRST_MS + 1)).entrySet()) {
                found.put(asked.getKey(), admin.listOffsets(Map.of(first, asked.getValue())).partitionResult(first).get().offset());
            }
            admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(2, "by hand"))).all().get();
            var committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(first);
            found.put("committed", committed.offset() + " " + committed.metadata());
            found.put("groupListed", admin.listConsumerGroups().all().get().stream().anyMatch(one -> one.groupId().equals(group)));
            found.put("groupState", admin.describeConsumerGroups(List.of(group)).all().get().get(group).state().toString());
            admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get();
            found.put("committedAfter", admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().size());
            admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(1))).all().get();
            admin.deleteConsumerGroups(List.of(group)).all().get();
            found.put("groupListedAfter", admin.listConsumerGroups().all().get().stream().anyMatch(one -> one.groupId().equals(group)));
        }

        static void partitions(Admin admin, String topic, ObjectNode found) throws Exception {
            var first = new TopicPartition(topic, 0);
            var replicas = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0).replicas();
            int target = (replicas.get(0).id() + 1) % 3;
            admin.alterPartitionReassignments(Map.of(first, Optional.of(new NewPartitionReassignment(List.of(target))))).all().get();
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (!admin.listPartitionReassignments().reassignments().get().isEmpty() && System.currentTimeMillis() < deadline) Thread.onSpinWait();
            // Every broker learns of it in its own time; the one that is asked may be a moment behind.
            List<Integer> after = List.of();
            while (!after.equals(List.of(target)) && System.currentTimeMillis() < deadline) {
                after = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0).replicas().stream().map(node -> node.id()).toList();
            }
            found.put("reassigned", after.equals(List.of(target)));
            found.put("election", failure(() -> admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).all().get()));
        }

        interface Failing {
            void run() throws Exception;
        }

        /** The class of what it throws; "none" when it throws nothing. */
        static String failure(Failing action) throws Exception {
            try {
                action.run();
                return "none";
            } catch (ExecutionException failed) {
                return failed.getCause().getClass().getSimpleName();
            }
        }
    }
}
