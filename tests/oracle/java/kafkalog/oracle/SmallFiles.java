package kafkalog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.LocalLog;
import org.apache.kafka.storage.internals.log.LogFileUtils;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.apache.kafka.storage.internals.log.TimeIndex;
import org.apache.kafka.storage.internals.log.TimestampOffset;
import org.apache.kafka.storage.internals.log.TransactionIndex;
import org.apache.kafka.storage.internals.log.TxnIndexSearchResult;

import java.io.File;
import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

/**
 * small-files FILE [--queries JSON] [--name =NAME]: what Kafka's classes answer about one file, by its suffix.
 *
 * .index .timeindex .txnindex   "sanity" (message or null) and an array in "answers" for each number in the queries
 * .offsets .properties          "offsets" or "values", or the message in "error"
 * any other                     NAME taken for that of a partition directory: "topic" and "partition", or "error"
 */
final class SmallFiles {
    private SmallFiles() { }

    private interface Check {
        void run() throws Exception;
    }

    static void read(Options options, ObjectNode result) throws Exception {
        File file = new File(options.argument(0, "FILE"));
        JsonNode queries = Main.JSON.readTree(options.text("queries", "[]"));
        String name = file.getName();
        switch (name.substring(name.lastIndexOf('.'))) {
            case ".index" -> offsetIndex(file, queries, result);
            case ".timeindex" -> timeIndex(file, queries, result);
            case ".txnindex" -> transactionIndex(file, queries, result);
            case ".offsets" -> offsets(file, result);
            case ".properties" -> properties(file, result);
            default -> partitionDirectory(options.text("name", "=").substring(1), result);
        }
    }

    private static void message(ObjectNode result, String field, Check check) {
        try {
            check.run();
            result.putNull(field);
        } catch (Exception e) {
            result.put(field, String.valueOf(e.getMessage()));
        }
    }

    private static void offsetIndex(File file, JsonNode queries, ObjectNode result) throws Exception {
        long base = LogFileUtils.offsetFromFile(file);
        OffsetIndex index = new OffsetIndex(file, base, -1, false);
        message(result, "sanity", index::sanityCheck);
        ArrayNode answers = result.putArray("answers");
        for (JsonNode query : queries) {
            OffsetPosition found = index.lookup(query.asLong());
            answers.addArray().add(found.offset()).add(found.position());
        }
        index.closeHandler();
    }

    private static void timeIndex(File file, JsonNode queries, ObjectNode result) throws Exception {
        TimeIndex index = new TimeIndex(file, LogFileUtils.offsetFromFile(file), -1, false);
        message(result, "sanity", index::sanityCheck);
        ArrayNode answers = result.putArray("answers");
        for (JsonNode query : queries) {
            TimestampOffset found = index.lookup(query.asLong());
            answers.addArray().add(found.timestamp()).add(found.offset());
        }
        index.closeHandler();
    }

    private static void transactionIndex(File file, JsonNode queries, ObjectNode result) throws Exception {
        TransactionIndex index = new TransactionIndex(LogFileUtils.offsetFromFile(file), file);
        message(result, "sanity", index::sanityCheck);
        message(result, "read", index::allAbortedTxns);
        ArrayNode answers = result.putArray("answers");
        if (result.get("read").isNull()) {
            for (JsonNode query : queries) {
                TxnIndexSearchResult found = index.collectAbortedTxns(query.asLong(), query.asLong() + 10);
                ArrayNode answer = answers.addArray().add(found.isComplete());
                for (AbortedTxn txn : found.abortedTransactions()) answer.add(txn.producerId());
            }
        }
        index.close();
    }

    private static void offsets(File file, ObjectNode result) {
        message(result, "error", () -> {
            ObjectNode offsets = result.putObject("offsets");
            for (Map.Entry<TopicPartition, Long> entry : new OffsetCheckpointFile(file, null).read().entrySet())
                offsets.put(entry.getKey().toString(), entry.getValue());
        });
    }

    private static void properties(File file, ObjectNode result) {
        message(result, "error", () -> {
            Properties properties = new Properties();
            try (InputStream in = new FileInputStream(file)) {
                properties.load(in);
            }
            ObjectNode values = result.putObject("values");
            for (String key : new TreeMap<>(properties).keySet().stream().map(String::valueOf).toList())
                values.put(key, properties.getProperty(key));
        });
    }

    private static void partitionDirectory(String name, ObjectNode result) {
        message(result, "error", () -> {
            TopicPartition partition = LocalLog.parseTopicPartitionName(new File("/logs/" + name));
            result.put("topic", partition.topic()).put("partition", partition.partition());
        });
    }
}
