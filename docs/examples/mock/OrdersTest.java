// A test of a program on Kafka's Java client: kafka-clients on the class path, `pip install odradek`,
// `java -cp kafka-clients.jar:slf4j-api.jar OrdersTest.java`; with JUnit, `before` and `after` are its @BeforeAll and @AfterAll.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public class OrdersTest {
    static final HttpClient http = HttpClient.newHttpClient();
    static Process mock;
    static String bootstrap, faults;

    static void before() throws IOException {
        mock = new ProcessBuilder("odradek", "mock", "--brokers", "3", "--topic", "orders", "--faults-api", "0")
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String line = new BufferedReader(new InputStreamReader(mock.getInputStream())).readLine();
        bootstrap = found("\"bootstrap\": \"([^\"]+)\"", line).get(0);
        faults = found("\"faults\": \"([^\"]+)\"", line).get(0);
    }

    static void after() {
        mock.destroy();
    }

    static String ask(String method, String named) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(faults + "/" + method))
            .POST(HttpRequest.BodyPublishers.ofString(named)).build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        check(answer.statusCode() == 200, answer.body());
        return answer.body().strip();
    }

    static void ordersSurviveARefusalAndTheDeathOfTheLeader() throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "acks", "all");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            String fault = found("\"fault\": (\\d+)", ask("respond",
                "{\"api\": \"Produce\", \"error\": \"NOT_LEADER_OR_FOLLOWER\", \"topic\": \"orders\"}")).get(0);
            producer.send(new ProducerRecord<>("orders", "first")).get();
            ask("wait_for", "{\"fault\": " + fault + "}"); // it has struck, and the client has sent it again

            String leader = ask("leader", "{\"topic\": \"orders\"}");
            ask("kill", "{\"broker\": " + leader + "}");
            producer.send(new ProducerRecord<>("orders", "second")).get();
        }
        String records = ask("records", "{\"topic\": \"orders\"}");
        check(found("\"value\": \"([^\"]+)\"", records).equals(List.of("first", "second")), records);
    }

    static List<String> found(String pattern, String text) {
        return Pattern.compile(pattern).matcher(text).results().map(match -> match.group(1)).toList();
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) throw new AssertionError(otherwise);
    }

    public static void main(String[] arguments) throws Exception {
        before();
        try {
            ordersSurviveARefusalAndTheDeathOfTheLeader();
        } finally {
            after();
        }
    }
}
