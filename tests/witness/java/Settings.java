import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import kafka.server.KafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Tells of settings, each `broker name=value` or `topic name=value` on a line, whether Kafka takes them: `taken`, or the
 * reason why not.
 */
public class Settings {
  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      int blank = line.indexOf(' '), equals = line.indexOf('=');
      Properties settings = new Properties();
      boolean ofTopic = line.startsWith("topic");
      if (!ofTopic) {
        settings.setProperty("zookeeper.connect", "127.0.0.1:1");
        settings.setProperty("broker.id", "0");
      }
      settings.setProperty(line.substring(blank + 1, equals), line.substring(equals + 1));
      String said = "taken";
      try {
        if (ofTopic) LogConfig.validate(settings);
        else KafkaConfig.fromProps(settings);
      } catch (Exception refusal) {
        said = refusal.toString().replace('\n', ' ');
      }
      System.out.println(said);
    }
  }
}
