package kafkalog.oracle;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The Java client as a command: Consume ADDRESS HOW ISOLATION COUNT WHAT..., with the arguments of tests/serve/clients/reading/reading.go. */
public final class Consume {
    private static final long PATIENCE_MS = 60_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) {
        String[] how = args[1].split("=");
        List<String> what = Arrays.asList(args).subList(4, args.length);
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", args[0], "isolation.level", args[2],
            "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        if (how.length > 1) {
            settings.put("group.id", how[1]);
            settings.put("group.protocol", how[0].equals("next") ? "consumer" : "classic");
        }
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            if (how.length > 1) consumer.subscribe(what);
            else assign(consumer, what);
            long late = System.currentTimeMillis() + PATIENCE_MS;
            for (int left = Integer.parseInt(args[3]); left > 0; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(300))) {
                    System.out.println(line(record));
                    left--;
                }
                if (System.currentTimeMillis() > late) throw new IllegalStateException(left + " records did not come");
            }
            if (how.length > 1) consumer.commitSync();
        }
    }

    private static void assign(KafkaConsumer<byte[], byte[]> consumer, List<String> places) {
        Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
        for (String place : places) {
            String[] parts = place.split(":");
            offsets.put(new TopicPartition(parts[0], Integer.parseInt(parts[1])), Long.parseLong(parts[2]));
        }
        consumer.assign(offsets.keySet());
        offsets.forEach(consumer::seek);
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode row = JSON.createObjectNode().put("topic", record.topic()).put("partition", record.partition())
            .put("offset", record.offset()).put("timestamp", record.timestamp()).put("key", record.key()).put("value", record.value());
        ArrayNode headers = row.putArray("headers");
        record.headers().forEach(header -> headers.addArray().add(header.key()).add(header.value()));
        return row.toString();
    }

    private Consume() { }
}
