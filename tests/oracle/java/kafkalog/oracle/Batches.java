package kafkalog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.FileLogInputStream;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.LegacyRecord;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/** Descriptions of batches (JSON lines) to the bytes of kafka-clients' builder, and a .log back to JSON lines. */
final class Batches {
    private Batches() { }

    static void write(Options options, ObjectNode result) throws Exception {
        Path out = Path.of(options.argument(0, "output file"));
        List<byte[]> frames = new ArrayList<>();
        String from = options.text("input", "-");
        try (BufferedReader in = from.equals("-")
                ? new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))
                : Files.newBufferedReader(Path.of(from))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (line.isBlank()) continue;
                JsonNode node = Main.JSON.readTree(line);
                if (!node.isArray()) {
                    frames.add(bytes(node));
                } else {
                    ByteArrayOutputStream joined = new ByteArrayOutputStream();
                    for (JsonNode one : node) joined.write(bytes(one));
                    frames.add(joined.toByteArray());
                }
            }
        }
        if (options.has("frames")) {
            Frames.write(out, frames);
        } else {
            ByteArrayOutputStream joined = new ByteArrayOutputStream();
            for (byte[] frame : frames) joined.write(frame);
            Files.write(out, joined.toByteArray());
        }
        ArrayNode sizes = result.putArray("sizes");
        frames.forEach(frame -> sizes.add(frame.length));
    }

    static Compression compression(String name, int level) {
        return switch (CompressionType.forName(name)) {
            case NONE -> Compression.NONE;
            case GZIP -> level == Integer.MIN_VALUE ? Compression.gzip().build() : Compression.gzip().level(level).build();
            case SNAPPY -> Compression.snappy().build();
            case LZ4 -> level == Integer.MIN_VALUE ? Compression.lz4().build() : Compression.lz4().level(level).build();
            case ZSTD -> level == Integer.MIN_VALUE ? Compression.zstd().build() : Compression.zstd().level(level).build();
        };
    }

    private static ByteBuffer decoded(JsonNode node) {
        return node == null || node.isNull() ? null : ByteBuffer.wrap(Base64.getDecoder().decode(node.asText()));
    }

    /** One batch: magic, codec, producer fields, then records, or "endTxn" for a transaction marker, or "raw" bytes. */
    static byte[] bytes(JsonNode batch) throws Exception {
        if (batch.has("raw")) return Base64.getDecoder().decode(batch.get("raw").asText());
        byte magic = (byte) batch.path("magic").asInt(2);
        long baseOffset = batch.path("baseOffset").asLong(0);
        long producerId = batch.path("producerId").asLong(RecordBatch.NO_PRODUCER_ID);
        short producerEpoch = (short) batch.path("producerEpoch").asInt(RecordBatch.NO_PRODUCER_EPOCH);
        int leaderEpoch = batch.path("partitionLeaderEpoch").asInt(RecordBatch.NO_PARTITION_LEADER_EPOCH);
        if (batch.has("endTxn")) {
            JsonNode end = batch.get("endTxn");
            EndTransactionMarker marker = new EndTransactionMarker(
                ControlRecordType.valueOf(end.get("type").asText().toUpperCase()), end.path("coordinatorEpoch").asInt(0));
            MemoryRecords records = MemoryRecords.withEndTransactionMarker(baseOffset, end.path("timestamp").asLong(0),
                leaderEpoch, producerId, producerEpoch, marker);
            return copy(records.buffer());
        }
        if (batch.has("empty")) {
            JsonNode empty = batch.get("empty");
            ByteBuffer buffer = ByteBuffer.allocate(61);
            org.apache.kafka.common.record.internal.DefaultRecordBatch.writeEmptyHeader(buffer, magic, producerId, producerEpoch,
                batch.path("baseSequence").asInt(RecordBatch.NO_SEQUENCE), baseOffset, empty.get("lastOffset").asLong(), leaderEpoch,
                TimestampType.CREATE_TIME, empty.path("timestamp").asLong(-1), batch.path("transactional").asBoolean(false),
                empty.path("control").asBoolean(false));
            buffer.flip();
            return copy(buffer);
        }
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
            : TimestampType.forName(batch.path("timestampType").asText("CreateTime"));
        Compression codec = compression(batch.path("codec").asText("none"), batch.path("level").asInt(Integer.MIN_VALUE));
        ByteBufferOutputStream out = new ByteBufferOutputStream(1 << 12);
        boolean control = batch.path("control").asBoolean(false);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(out, magic, codec, type, baseOffset,
            batch.path("logAppendTime").asLong(RecordBatch.NO_TIMESTAMP), producerId, producerEpoch,
            batch.path("baseSequence").asInt(RecordBatch.NO_SEQUENCE), batch.path("transactional").asBoolean(false),
            control, leaderEpoch, Integer.MAX_VALUE, batch.path("deleteHorizonMs").asLong(RecordBatch.NO_TIMESTAMP));
        long offset = baseOffset;
        for (JsonNode record : batch.get("records")) {
            if (record.has("offset")) offset = record.get("offset").asLong();
            long timestamp = record.path("timestamp").asLong(RecordBatch.NO_TIMESTAMP);
            if (magic < 2 && control) throw new IllegalArgumentException("no control records before magic 2");
            if (magic == 0) {
                builder.appendUncheckedWithOffset(offset, LegacyRecord.create((byte) 0, RecordBatch.NO_TIMESTAMP,
                    array(decoded(record.get("key"))), array(decoded(record.get("value")))));
            } else if (control) {
                builder.appendControlRecordWithOffset(offset, new SimpleRecord(timestamp, decoded(record.get("key")),
                    decoded(record.get("value")), headers(record.get("headers"))));
            } else {
                builder.appendWithOffset(offset, timestamp, decoded(record.get("key")), decoded(record.get("value")),
                    magic < 2 ? Record.EMPTY_HEADERS : headers(record.get("headers")));
            }
            offset++;
        }
        if (batch.has("lastOffset")) builder.overrideLastOffset(batch.get("lastOffset").asLong());
        return copy(builder.build().buffer());
    }

    private static byte[] array(ByteBuffer buffer) {
        return buffer == null ? null : copy(buffer);
    }

    private static byte[] copy(ByteBuffer buffer) {
        ByteBuffer view = buffer.duplicate();
        byte[] bytes = new byte[view.remaining()];
        view.get(bytes);
        return bytes;
    }

    private static Header[] headers(JsonNode node) {
        if (node == null || node.isNull()) return Record.EMPTY_HEADERS;
        List<Header> headers = new ArrayList<>();
        for (JsonNode pair : node) {
            ByteBuffer value = decoded(pair.get(1));
            headers.add(new RecordHeader(pair.get(0).asText(), value == null ? null : copy(value)));
        }
        return headers.toArray(new Header[0]);
    }

    private static String encoded(ByteBuffer buffer) {
        return buffer == null ? null : Base64.getEncoder().encodeToString(copy(buffer));
    }

    static void decode(Options options, ObjectNode result) throws Exception {
        File file = new File(options.argument(0, "log file"));
        long batches = 0;
        long records = 0;
        try (FileRecords log = FileRecords.open(file, false)) {
            for (FileLogInputStream.FileChannelRecordBatch batch : log.batches()) {
                ObjectNode line = Main.JSON.createObjectNode();
                batches++;
                line.put("position", batch.position()).put("size", batch.sizeInBytes()).put("magic", batch.magic())
                    .put("baseOffset", batch.baseOffset()).put("lastOffset", batch.lastOffset())
                    .put("codec", batch.compressionType().name).put("timestampType", batch.timestampType().name)
                    .put("maxTimestamp", batch.maxTimestamp()).put("crc", batch.checksum());
                boolean valid = batch.isValid();
                line.put("valid", valid);
                if (batch.magic() >= 2) {
                    line.put("producerId", batch.producerId()).put("producerEpoch", batch.producerEpoch())
                        .put("baseSequence", batch.baseSequence()).put("transactional", batch.isTransactional())
                        .put("control", batch.isControlBatch()).put("partitionLeaderEpoch", batch.partitionLeaderEpoch())
                        .put("count", batch.countOrNull());
                    if (batch.deleteHorizonMs().isPresent()) line.put("deleteHorizonMs", batch.deleteHorizonMs().getAsLong());
                }
                try {
                    ArrayNode list = line.putArray("records");
                    for (Record record : batch) {
                        records++;
                        ObjectNode one = list.addObject();
                        one.put("offset", record.offset()).put("timestamp", record.timestamp())
                            .put("key", encoded(record.key())).put("value", encoded(record.value()));
                        if (batch.magic() >= 2) {
                            one.put("sequence", record.sequence());
                            ArrayNode headers = one.putArray("headers");
                            for (Header header : record.headers())
                                headers.addArray().add(header.key())
                                    .add(header.value() == null ? null : Base64.getEncoder().encodeToString(header.value()));
                        } else {
                            boolean ok = true;
                            try {
                                record.ensureValid();
                            } catch (RuntimeException e) {
                                ok = false;
                            }
                            one.put("valid", ok);
                        }
                    }
                } catch (RuntimeException e) {
                    line.put("error", Main.text(e, options));
                }
                if (!options.has("quiet")) Main.OUT.println(Main.JSON.writeValueAsString(line));
            }
        }
        result.put("batches", batches).put("records", records);
    }
}
