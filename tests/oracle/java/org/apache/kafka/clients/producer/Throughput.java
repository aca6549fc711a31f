package org.apache.kafka.clients.producer;

import java.nio.file.*;
import java.util.*;
import org.apache.kafka.clients.*;
import org.apache.kafka.clients.producer.internals.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.*;

/**
 * Seconds that the real KafkaProducer takes for records: it partitions, accumulates and compresses them with its sender in a
 * thread, as usual. Its network client is a null broker, which takes every request at once.
 */
public class Throughput {
    /** FILE SIZE PARTITIONS CODEC ROUNDS: the file has records of SIZE bytes. */
    public static void main(String[] args) throws Exception {
        byte[] data = Files.readAllBytes(Path.of(args[0]));
        int size = Integer.parseInt(args[1]), rounds = Integer.parseInt(args[4]);
        byte[][] values = new byte[data.length / size][];
        for (int i = 0; i < values.length; i++)
            values[i] = Arrays.copyOfRange(data, i * size, (i + 1) * size);
        NullBroker broker = new NullBroker();
        KafkaProducer<byte[], byte[]> producer = producer(broker, Integer.parseInt(args[2]), args[3]);
        double best = Double.MAX_VALUE;
        for (int round = 0; round < rounds; round++) {
            long begun = System.nanoTime();
            for (byte[] value : values)
                producer.send(new ProducerRecord<>("t", value));
            producer.flush();
            best = Math.min(best, (System.nanoTime() - begun) / 1e9);
        }
        System.out.println("{\"seconds\":" + best + ",\"batches\":" + broker.batches + ",\"bytes\":" + broker.bytes + "}");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static KafkaProducer<byte[], byte[]> producer(KafkaClient client, int partitions, String codec) {
        Map<String, Object> given = new HashMap<>(Map.of("bootstrap.servers", "127.0.0.1:9", "client.id", "throughput", "acks", "0",
            "enable.idempotence", "false", "compression.type", codec, "key.serializer", ByteArraySerializer.class.getName(),
            "value.serializer", ByteArraySerializer.class.getName()));
        ProducerConfig config = new ProducerConfig(given);
        LogContext context = new LogContext();
        Time time = Time.SYSTEM;
        Metrics metrics = new Metrics(time);
        ProducerMetadata metadata = new ProducerMetadata(100, 1000, 300_000, 300_000, context, new ClusterResourceListeners(), time);
        metadata.add("t", time.milliseconds());
        MetadataResponseData.MetadataResponseTopic topic = new MetadataResponseData.MetadataResponseTopic().setName("t").setTopicId(new Uuid(1, 1));
        for (int p = 0; p < partitions; p++)
            topic.partitions().add(new MetadataResponseData.MetadataResponsePartition().setPartitionIndex(p).setLeaderId(1)
                .setLeaderEpoch(0).setReplicaNodes(List.of(1)).setIsrNodes(List.of(1)));
        MetadataResponseData data = new MetadataResponseData().setClusterId("throughput").setControllerId(1);
        data.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(1).setHost("127.0.0.1").setPort(9));
        data.topics().add(topic);
        metadata.update(metadata.updateVersion(), new MetadataResponse(data, ApiKeys.METADATA.latestVersion()), false, time.milliseconds());
        int batchSize = config.getInt("batch.size");
        RecordAccumulator accumulator = new RecordAccumulator(context, batchSize, Scripted.compression(config), 5, 100, 1000, 120_000,
            new RecordAccumulator.PartitionerConfig(true, 0), metrics, "producer-metrics", time, null,
            new BufferPool(config.getLong("buffer.memory"), batchSize, metrics, time, "producer-metrics"));
        KafkaProducer<byte[], byte[]> maker = new KafkaProducer<>(config, context, metrics, new ByteArraySerializer(), new ByteArraySerializer(),
            metadata, accumulator, null, null, new ProducerInterceptors<>(List.of(), metrics), null, time, null, Optional.empty());
        Sender sender = maker.newSender(context, client, metadata);
        Sender.SenderThread thread = new Sender.SenderThread("sender", sender, true);
        thread.start();
        return new KafkaProducer<>(config, context, new Metrics(time), new ByteArraySerializer(), new ByteArraySerializer(), metadata,
            accumulator, null, sender, new ProducerInterceptors<>(List.of(), metrics), null, time, thread, Optional.empty());
    }

    /** Takes Produce requests with acks=0, and counts their batches and bytes. */
    static class NullBroker implements KafkaClient {
        long batches, bytes;
        private final List<ClientResponse> answers = new ArrayList<>();
        private boolean woken;
        private int correlation;

        public void send(ClientRequest request, long now) {
            ProduceRequest body = (ProduceRequest) request.requestBuilder().build(ApiKeys.PRODUCE.latestVersion());
            body.data().topicData().forEach(t -> t.partitionData().forEach(p -> { batches++; bytes += p.records().sizeInBytes(); }));
            answers.add(new ClientResponse(request.makeHeader(body.version()), request.callback(), "1", now, now, false, null, null, null));
        }

        public List<ClientResponse> poll(long timeout, long now) {
            List<ClientResponse> done = new ArrayList<>(answers);
            answers.clear();
            if (done.isEmpty()) {
                synchronized (this) {
                    try {
                        if (!woken && timeout > 0) wait(Math.min(timeout, 1000));
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                    }
                    woken = false;
                }
            }
            done.forEach(ClientResponse::onComplete);
            return done;
        }

        public synchronized void wakeup() { woken = true; notifyAll(); }
        public boolean isReady(Node node, long now) { return true; }
        public boolean ready(Node node, long now) { return true; }
        public long connectionDelay(Node node, long now) { return 0; }
        public long pollDelayMs(Node node, long now) { return 0; }
        public boolean connectionFailed(Node node) { return false; }
        public AuthenticationException authenticationException(Node node) { return null; }
        public void disconnect(String nodeId) { }
        public void close(String nodeId) { }
        public LeastLoadedNode leastLoadedNode(long now) { return new LeastLoadedNode(new Node(1, "127.0.0.1", 9), true); }
        public int inFlightRequestCount() { return 0; }
        public boolean hasInFlightRequests() { return false; }
        public int inFlightRequestCount(String nodeId) { return 0; }
        public boolean hasInFlightRequests(String nodeId) { return false; }
        public boolean hasReadyNodes(long now) { return true; }
        public ClientRequest newClientRequest(String nodeId, AbstractRequest.Builder<?> builder, long created, boolean expectResponse) {
            return newClientRequest(nodeId, builder, created, expectResponse, 30000, null);
        }
        public ClientRequest newClientRequest(String nodeId, AbstractRequest.Builder<?> builder, long created, boolean expectResponse, int timeout, RequestCompletionHandler callback) {
            return new ClientRequest(nodeId, builder, correlation++, "throughput", created, expectResponse, timeout, callback);
        }
        public void initiateClose() { }
        public boolean active() { return true; }
        public void close() { }
    }
}
