import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools one after another in one Java machine, which would otherwise start for each.
 * Commands and answers are lines of JSON: {"main": class, "arguments": [...], "input": text} gives
 * {"code": exit code, "said": what went to both outputs}; a tool that does not end in time gives {"error": where it is}.
 */
public class Toolbox {
    private static final long SECONDS = 140;

    /** In place of the end of the process. */
    private static class Left extends Error {
        Left() {
            super("left", null, false, false);
        }
    }

    private static volatile Integer code;
    private static volatile ByteArrayOutputStream said;

    /** What a tool says after it has asked to exit is lost, as it would be. */
    private static final OutputStream OUTPUT = new OutputStream() {
        @Override
        public void write(int one) {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public synchronized void write(byte[] bytes, int at, int length) {
            if (code == null)
                said.write(bytes, at, length);
        }
    };

    private static void exit(int status, String message) {
        if (message != null)
            System.err.println(message);
        if (code == null)
            code = status;
        throw new Left();
    }

    private static void run(String main, String[] arguments) {
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
            if (code == null)
                code = 0;
        } catch (InvocationTargetException failure) {
            if (code == null) {
                failure.getCause().printStackTrace();
                code = 1;
            }
        } catch (ReflectiveOperationException failure) {
            failure.printStackTrace();
            code = 127;
        }
    }

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        System.setOut(new PrintStream(OUTPUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(OUTPUT, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(Toolbox::exit);
        Exit.setHaltProcedure(Toolbox::exit);
        Exit.setShutdownHookAdder((name, hook) -> { });
        ObjectMapper json = new ObjectMapper();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = commands.readLine()) != null; ) {
            JsonNode asked = json.readTree(line);
            code = null;
            said = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(asked.get("input").asText().getBytes(StandardCharsets.UTF_8)));
            String[] arguments = json.convertValue(asked.get("arguments"), String[].class);
            Thread tool = new Thread(() -> run(asked.get("main").asText(), arguments));
            tool.setDaemon(true);
            tool.start();
            tool.join(SECONDS * 1000);
            ObjectNode answer = json.createObjectNode();
            if (tool.isAlive())
                answer.put("error", "does not end: " + String.join(" ", arguments) + "\n" + said);
            else
                answer.put("code", code).put("said", said.toString(StandardCharsets.UTF_8));
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
