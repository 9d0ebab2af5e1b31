import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Answers each line, `member:rack:topic,topic member:... / topic:racks,racks topic:...`, with what RangeAssignor gives. */
public class Ranges {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] halves = line.split(" / ");
            Map<String, Subscription> members = new TreeMap<>();
            for (String text : halves[0].split(" ")) {
                String[] parts = text.split(":", -1);
                Optional<String> rack = Optional.of(parts[1]).filter(name -> !name.isEmpty());
                List<String> topics = Arrays.asList(parts[2].split(","));
                members.put(parts[0], new Subscription(topics, null, List.of(), -1, rack));
            }
            Map<String, List<PartitionInfo>> topics = new TreeMap<>();
            for (String text : halves[1].split(" ")) {
                String[] parts = text.split(":", -1);
                List<PartitionInfo> partitions = new ArrayList<>();
                for (String racks : parts[1].split(",", -1)) {
                    Node[] replicas = racks.chars()
                            .mapToObj(letter -> new Node(letter, "host", 9092, String.valueOf((char) letter)))
                            .toArray(Node[]::new);
                    partitions.add(new PartitionInfo(parts[0], partitions.size(), null, replicas, replicas));
                }
                topics.put(parts[0], partitions);
            }
            Map<String, List<TopicPartition>> given =
                    new TreeMap<>(new RangeAssignor().assignPartitions(topics, members));
            System.out.println(given.entrySet().stream()
                    .map(entry -> entry.getKey() + ":" + entry.getValue().stream()
                            .map(TopicPartition::toString)
                            .collect(Collectors.joining(",")))
                    .collect(Collectors.joining(" ")));
        }
    }
}
