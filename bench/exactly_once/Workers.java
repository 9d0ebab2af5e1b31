/* The Java client's part in bench/kill_under_load.py: reads, processes and writes in transactions, and reads along.

   Workers BOOTSTRAP SOURCE TARGET NAME. Two workers, one group. Each record of the source becomes two of the target, in
   the partitions of their numbers; every tenth transaction is aborted on purpose. Prints what happens, a line each, with
   tabs between: `transaction`, its name, begin and end in ms, how it ended, its records as partition:offset, the
   trouble that ended it; `read`, partition, offset and value as a read_committed reader is given them. Ends when its
   input does. All settings that are not named here are Kafka's defaults.
*/

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.StringJoiner;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

class Workers {
    static final int WORKERS = 2;
    static final Duration POLL = Duration.ofMillis(200);
    static volatile boolean over = false;

    static String bootstrap, source, target, name;

    public static void main(String[] given) throws Exception {
        bootstrap = given[0];
        source = given[1];
        target = given[2];
        name = given[3];
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < WORKERS; number++) {
            Worker worker = new Worker(name + "-" + number);
            threads.add(new Thread(worker::work, worker.id));
        }
        Thread reader = new Thread(Workers::readAlong, "reader");
        threads.forEach(Thread::start);
        reader.start();
        while (System.in.read() >= 0) continue;
        over = true;
        for (Thread thread : threads) thread.join();
        reader.join();
        System.out.println("end");
    }

    static void say(Object... fields) {
        StringJoiner line = new StringJoiner("\t");
        for (Object field : fields) line.add(String.valueOf(field).replaceAll("\\s+", " "));
        synchronized (System.out) {
            System.out.println(line);
        }
    }

    static KafkaConsumer<String, String> consumer(String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", "100");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static void readAlong() {
        try (KafkaConsumer<String, String> consumer = consumer("nobody")) {
            List<TopicPartition> places = new ArrayList<>();
            for (PartitionInfo one : consumer.partitionsFor(target)) places.add(new TopicPartition(target, one.partition()));
            consumer.assign(places);
            consumer.seekToBeginning(places);
            while (!over) {
                for (ConsumerRecord<String, String> one : consumer.poll(POLL)) {
                    say("read", one.partition(), one.offset(), one.value());
                }
            }
        } catch (KafkaException failed) {
            say("broken", "reader", failed);
        }
    }

    static class Worker {
        final String id;
        int count = 0;

        Worker(String id) {
            this.id = id;
        }

        void work() {
            try (KafkaConsumer<String, String> consumer = consumer(name)) {
                consumer.subscribe(List.of(source));
                KafkaProducer<String, String> producer = null;
                while (!over) {
                    if (producer == null) {
                        producer = successor();
                        if (producer == null) continue;
                        rewind(consumer); // not before: its beginning ends what the one before has left open
                    }
                    ConsumerRecords<String, String> records = consumer.poll(POLL);
                    if (!records.isEmpty() && !process(consumer, producer, records)) {
                        producer.close(Duration.ZERO);
                        producer = null;
                    }
                }
                if (producer != null) producer.close();
            } catch (KafkaException failed) {
                say("broken", id, failed);
            }
        }

        KafkaProducer<String, String> successor() {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("transactional.id", id);
            settings.put("transaction.timeout.ms", "20000");
            KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
            try {
                producer.initTransactions();
                return producer;
            } catch (KafkaException failed) {
                say("failed", System.currentTimeMillis(), "init " + failed);
                producer.close(Duration.ZERO);
                return null;
            }
        }

        /** One transaction; tells whether the producer may go on. */
        boolean process(
                KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer,
                ConsumerRecords<String, String> records) {
            String transaction = id + "." + count++;
            StringJoiner places = new StringJoiner(",");
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> one : records) {
                places.add(one.partition() + ":" + one.offset());
                offsets.put(new TopicPartition(source, one.partition()), new OffsetAndMetadata(one.offset() + 1));
            }
            long began = System.currentTimeMillis();
            String outcome = "unknown";
            String trouble = "";
            try {
                producer.beginTransaction();
                for (ConsumerRecord<String, String> one : records) {
                    String value = transaction + "/" + one.partition() + ":" + one.offset();
                    int to = (int) (one.offset() % 3) * 2;
                    producer.send(new ProducerRecord<>(target, to, null, value + "/a"));
                    producer.send(new ProducerRecord<>(target, to + 1, null, value + "/b"));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (count % 10 == 0) {
                    producer.abortTransaction();
                    outcome = "aborted";
                } else {
                    commit(producer);
                    outcome = "committed";
                }
            } catch (KafkaException failed) {
                trouble = String.valueOf(failed) + (failed.getCause() == null ? "" : " <- " + failed.getCause());
                try {
                    producer.abortTransaction();
                    outcome = "aborted";
                } catch (KafkaException fatal) {
                    trouble += "; abort: " + fatal;
                }
            }
            say("transaction", transaction, began, System.currentTimeMillis(), outcome, places, trouble);
            if (outcome.equals("aborted")) rewind(consumer);
            return !outcome.equals("unknown");
        }

        /** Asks again after a timeout, as its documentation says: the outcome is not known before. */
        void commit(KafkaProducer<String, String> producer) {
            while (true) {
                try {
                    producer.commitTransaction();
                    return;
                } catch (TimeoutException late) {
                    say("failed", System.currentTimeMillis(), "commit " + late);
                }
            }
        }

        /** Back to what the group has committed. */
        void rewind(KafkaConsumer<String, String> consumer) {
            while (!over) {
                try {
                    consumer.committed(consumer.assignment()).forEach((place, offset) ->
                        consumer.seek(place, offset == null ? 0 : offset.offset()));
                    return;
                } catch (TimeoutException late) {
                    say("failed", System.currentTimeMillis(), "committed " + late);
                }
            }
        }
    }
}
