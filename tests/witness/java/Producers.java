// What Kafka's ProducerStateManager makes of batches, one line for each line of standard input:
//   data ORIGIN HIGH_WATERMARK HEX    as UnifiedLog.append does it
//   reload NOW_MS                     a snapshot, and a new manager that loads it
//   expire NOW_MS
// Run with the jars of org.apache.kafka:kafka_2.13:3.9.1; the argument is an empty directory.
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

public class Producers {
    static final int EXPIRATION_MS = 1000;
    static File directory;
    static ProducerStateManager manager;

    static ProducerStateManager anew() throws Exception {
        return new ProducerStateManager(new TopicPartition("t", 0), directory, 60000,
            new ProducerStateManagerConfig(EXPIRATION_MS, false), Time.SYSTEM);
    }

    static String data(AppendOrigin origin, long highWatermark, byte[] bytes) {
        MutableRecordBatch batch = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches().iterator().next();
        Optional<ProducerStateEntry> last = manager.lastEntry(batch.producerId());
        if (origin == AppendOrigin.CLIENT) {
            Optional<BatchMetadata> again = last.flatMap(entry -> entry.findDuplicateBatch(batch));
            if (again.isPresent())
                return "duplicate " + again.get().firstOffset() + " " + again.get().lastOffset + " " + again.get().timestamp;
        }
        ProducerAppendInfo info = manager.prepareUpdate(batch.producerId(), origin);
        Optional<LogOffsetMetadata> first =
            batch.isTransactional() ? Optional.of(new LogOffsetMetadata(batch.baseOffset())) : Optional.empty();
        Optional<CompletedTxn> ended;
        try {
            ended = info.append(batch, first);
        } catch (ApiException error) {
            return Errors.forException(error).name();
        }
        manager.update(info);
        String said = "ok";
        if (ended.isPresent()) {
            CompletedTxn one = ended.get();
            if (one.isAborted)
                said += " aborted " + one.firstOffset + " " + one.lastOffset + " " + manager.lastStableOffset(one);
            manager.completeTxn(one);
        }
        manager.updateMapEndOffset(batch.lastOffset() + 1);
        manager.onHighWatermarkUpdated(highWatermark);
        return said;
    }

    static String state() {
        String producers = manager.activeProducers().values().stream()
            .map(one -> one.producerId() + ":" + one.producerEpoch() + ":" + one.lastSeq() + ":" + one.lastDataOffset() + ":"
                + one.lastTimestamp() + ":" + one.coordinatorEpoch() + ":" + one.currentTxnFirstOffset().orElse(-1L) + ":"
                + one.batchMetadata().size())
            .sorted().collect(Collectors.joining(","));
        long unstable = manager.firstUnstableOffset().map(offset -> offset.messageOffset).orElse(-1L);
        return " unstable " + unstable + " " + producers;
    }

    public static void main(String[] arguments) throws Exception {
        directory = new File(arguments[0]);
        manager = anew();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            String said = words[0];
            if (words[0].equals("data")) {
                said = data(AppendOrigin.valueOf(words[1]), Long.parseLong(words[2]), HexFormat.of().parseHex(words[3]));
            } else if (words[0].equals("expire")) {
                manager.removeExpiredProducers(Long.parseLong(words[1]));
            } else {
                long end = manager.mapEndOffset();
                manager.takeSnapshot();
                manager = anew();
                manager.truncateAndReload(0, end, Long.parseLong(words[1]));
                manager.updateMapEndOffset(end);
            }
            System.out.println(said + state());
        }
    }
}
