package kafkalog.oracle;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** All records that a consumer is handed: ReadAll BOOTSTRAP ISOLATION. A line for each; it fails where nothing comes for 60 s. */
public final class ReadAll {
    private static final long PATIENCE_MS = 60_000;

    public static void main(String[] args) {
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "isolation.level", args[1], "auto.offset.reset", "none",
            "enable.auto.commit", "false");
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.listTopics().forEach((topic, infos) -> infos.forEach(info -> {
                if (!topic.startsWith("__")) partitions.add(new TopicPartition(topic, info.partition()));
            }));
            consumer.assign(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            consumer.seekToBeginning(partitions);
            long last = System.currentTimeMillis();
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    last = System.currentTimeMillis();
                    System.out.println(record.topic() + "-" + record.partition() + "\t" + record.offset() + "\t" + record.timestamp()
                        + "\t" + text(record.key()) + "\t" + text(record.value()));
                }
                if (System.currentTimeMillis() - last > PATIENCE_MS) throw new IllegalStateException("nothing comes any more");
            }
        }
    }

    private static String text(byte[] data) {
        return data == null ? "-" : Base64.getEncoder().encodeToString(data);
    }

    private ReadAll() { }
}
