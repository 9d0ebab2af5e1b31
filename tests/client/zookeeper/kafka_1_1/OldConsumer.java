import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/** Kafka's own member of a group: prints `partition offset value`. ZOOKEEPER GROUP TOPIC STREAMS STRATEGY. */
public class OldConsumer {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("zookeeper.connect", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("partition.assignment.strategy", arguments[4]);
        settings.put("auto.offset.reset", "smallest");
        settings.put("zookeeper.session.timeout.ms", "6000");
        settings.put("rebalance.backoff.ms", "500");
        settings.put("rebalance.max.retries", "100"); // on a busy machine others are slow to give up what they own
        settings.put("auto.commit.interval.ms", "100");
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        Runtime.getRuntime().addShutdownHook(new Thread(connector::shutdown));
        List<KafkaStream<byte[], byte[]>> streams =
            connector.createMessageStreams(Map.of(arguments[2], Integer.valueOf(arguments[3]))).get(arguments[2]);
        System.out.println("ready");
        for (KafkaStream<byte[], byte[]> stream : streams) {
            new Thread(() -> read(stream)).start();
        }
    }

    private static void read(KafkaStream<byte[], byte[]> stream) {
        for (MessageAndMetadata<byte[], byte[]> message : stream) {
            System.out.println(message.partition() + " " + message.offset() + " " + new String(message.message()));
        }
    }
}
