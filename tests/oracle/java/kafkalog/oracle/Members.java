package kafkalog.oracle;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a group that join and leave: Members ADDRESS PROTOCOL GROUP TOPIC... Prints how partitions are divided at each step,
 * which records were read, and what is committed in the end. Members commit what they read before they lose a partition.
 */
public final class Members {
    private static final long PATIENCE_MS = 90_000;
    private final Set<String> read = new TreeSet<>();
    private int repeated;

    private final class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;

        Member(String[] args) {
            consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", args[0], "group.protocol", args[1], "group.id", args[2],
                "auto.offset.reset", "earliest", "enable.auto.commit", "false", "max.poll.records", "7"),
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(args).subList(3, args.length), this);
        }

        void poll() {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50)))
                if (!read.add(record.topic() + "-" + record.partition() + "@" + record.offset())) repeated++;
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) { consumer.commitSync(); }
        @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) { }
    }

    public static void main(String[] args) {
        new Members().run(args);
    }

    private void run(String[] args) {
        Member first = new Member(args);
        Set<TopicPartition> all = new TreeSet<>((a, b) -> a.toString().compareTo(b.toString()));
        for (String topic : List.of(args).subList(3, args.length))
            first.consumer.partitionsFor(topic).forEach(one -> all.add(new TopicPartition(topic, one.partition())));
        until(all, first);
        Member second = new Member(args);
        until(all, first, second);
        first.consumer.close();
        until(all, second);
        Member third = new Member(args);
        until(all, second, third);
        third.consumer.unsubscribe();
        until(all, second);
        third.consumer.subscribe(List.of(args).subList(3, args.length), third);
        until(all, second, third);
        third.consumer.close();
        until(all, second);
        Map<TopicPartition, Long> ends = second.consumer.endOffsets(all);
        long late = System.currentTimeMillis() + PATIENCE_MS;
        while (all.stream().anyMatch(one -> second.consumer.position(one) < ends.get(one))) {
            second.poll();
            if (System.currentTimeMillis() > late) throw new IllegalStateException("records do not come");
        }
        second.consumer.commitSync();
        Map<String, Long> committed = new TreeMap<>();
        second.consumer.committed(all).forEach((one, offset) -> committed.put(one.toString(), offset.offset()));
        System.out.println("read " + read.size() + ", twice " + repeated + ", committed " + committed);
        second.consumer.close();
    }

    /** Polls until the members have all partitions, each of them some, and no partition belongs to two. */
    private void until(Set<TopicPartition> all, Member... members) {
        long late = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            for (Member member : members) member.poll();
            List<TopicPartition> held = new ArrayList<>();
            List<Integer> sizes = new ArrayList<>();
            for (Member member : members) {
                held.addAll(member.consumer.assignment());
                sizes.add(member.consumer.assignment().size());
            }
            if (held.size() == all.size() && Set.copyOf(held).equals(all) && !sizes.contains(0)) break;
            if (System.currentTimeMillis() > late) throw new IllegalStateException("no assignment: " + held);
        }
        System.out.println(members.length + " members: " + Arrays.stream(members).map(one -> one.consumer.assignment().size())
            .sorted().map(String::valueOf).collect(Collectors.joining(" ")));
    }

    private Members() { }
}
