package kafkalog.oracle;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A group whose offsets are committed in transactions: SendOffsets ADDRESS PROTOCOL FROM TO. Prints the committed offset of
 * FROM-0 after each step, and which exceptions there are.
 */
public final class SendOffsets {
    private interface Step { void run() throws Exception; }

    private static String group;

    public static void main(String[] args) {
        group = "exactly-" + args[1];
        TopicPartition from = new TopicPartition(args[2], 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]));
             KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", args[0], "group.id", group,
                 "group.protocol", args[1], "auto.offset.reset", "earliest", "enable.auto.commit", "false"),
                 new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            KafkaProducer<byte[], byte[]> producer = producer(args[0]);
            consumer.subscribe(List.of(args[2]));
            while (consumer.poll(Duration.ofMillis(200)).isEmpty()) { }
            step(admin, from, "init", producer::initTransactions);
            step(admin, from, "open", () -> {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(args[3], 0, null, "kept".getBytes())).get();
                producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(10, Optional.of(0), "ten")), consumer.groupMetadata());
            });
            step(admin, from, "commit", () -> {
                producer.commitTransaction();
                until(admin, from, 10);
            });
            step(admin, from, "abort", () -> {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(20)), consumer.groupMetadata());
                producer.abortTransaction();
            });
            step(admin, from, "only offsets", () -> {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(30)), consumer.groupMetadata());
                producer.commitTransaction();
                until(admin, from, 30);
            });
            step(admin, from, "of another generation", () -> {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(40)),
                    new ConsumerGroupMetadata(group, 99, consumer.groupMetadata().memberId(), Optional.empty()));
            });
            step(admin, from, "abort", producer::abortTransaction);
            step(admin, from, "of a stranger", () -> {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(50)),
                    new ConsumerGroupMetadata(group, 1, "nobody", Optional.empty()));
            });
            step(admin, from, "abort", producer::abortTransaction);
            step(admin, from, "without a member", () -> {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(55)), new ConsumerGroupMetadata(group));
                producer.commitTransaction();
                until(admin, from, 55);
            });
            step(admin, from, "open", () -> {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(60)), consumer.groupMetadata());
            });
            step(admin, from, "open, stable", () -> offset(admin, from, stable(3000)));
            try (KafkaProducer<byte[], byte[]> other = producer(args[0])) {
                step(admin, from, "init of another one", other::initTransactions);
                step(admin, from, "commit of the first one", producer::commitTransaction);
                step(admin, from, "commit of the other one", () -> {
                    other.beginTransaction();
                    other.send(new ProducerRecord<>(args[3], 0, null, "last".getBytes())).get();
                    other.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(70)), consumer.groupMetadata());
                    other.commitTransaction();
                    until(admin, from, 70);
                });
            }
            producer.close(Duration.ZERO);
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String address) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", address, "transactional.id", group));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void step(Admin admin, TopicPartition from, String name, Step step) {
        String end = "done";
        try {
            step.run();
        } catch (ExecutionException error) {
            end = error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            end = error.getClass().getSimpleName();
        }
        String offset;
        try {
            boolean isOpen = !name.startsWith("commit") && !name.startsWith("init") && !name.startsWith("only");
            offset = offset(admin, from, isOpen ? new ListConsumerGroupOffsetsOptions() : stable(20_000));
        } catch (Exception error) {
            offset = error.toString();
        }
        System.out.println(name + ": " + end + ", committed " + offset);
    }

    /** Waits until the offset is committed: markers are written after the answer to the producer. */
    private static void until(Admin admin, TopicPartition from, long offset) throws Exception {
        while (!offset(admin, from, stable(20_000)).startsWith(offset + " ")) Thread.sleep(50);
    }

    private static ListConsumerGroupOffsetsOptions stable(int timeoutMs) {
        return new ListConsumerGroupOffsetsOptions().requireStable(true).timeoutMs(timeoutMs);
    }

    private static String offset(Admin admin, TopicPartition from, ListConsumerGroupOffsetsOptions options) throws Exception {
        OffsetAndMetadata found = admin.listConsumerGroupOffsets(group, options).partitionsToOffsetAndMetadata().get().get(from);
        return found == null ? "nothing" : found.offset() + " '" + found.metadata() + "'";
    }

    private SendOffsets() { }
}
