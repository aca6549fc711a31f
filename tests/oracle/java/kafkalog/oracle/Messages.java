package kafkalog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.util.Base64;

/**
 * {@code message NAME VERSION BASE64… [--write VERSION]}: reads each as Kafka's generated class does → its JSON, its end, and
 * written again, perhaps in another version.
 */
final class Messages {
    private Messages() { }

    static void read(Options options, ObjectNode result) throws Exception {
        String name = options.positional.get(0);
        short version = Short.parseShort(options.positional.get(1));
        short target = (short) options.number("write", version);
        Class<?> kind = Class.forName("org.apache.kafka.common.message." + name + "Data");
        Class<?> converter = Class.forName(kind.getName() + "JsonConverter");
        ArrayNode found = result.putArray("messages");
        for (String text : options.positional.subList(2, options.positional.size())) {
            ObjectNode one = found.addObject();
            ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(text));
            try {
                Message message = (Message) kind.getConstructor(Readable.class, short.class)
                    .newInstance(new ByteBufferAccessor(bytes), version);
                one.put("end", bytes.position());
                one.set("json", (JsonNode) converter.getMethod("write", kind, short.class, boolean.class)
                    .invoke(null, message, version, false));
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ByteBuffer again = ByteBuffer.allocate(message.size(cache, target));
                message.write(new ByteBufferAccessor(again), cache, target);
                one.put("again", Base64.getEncoder().encodeToString(again.array()));
            } catch (InvocationTargetException failure) {
                one.put("failed", String.valueOf(failure.getCause()));
            } catch (RuntimeException failure) {
                one.put("failed", String.valueOf(failure));
            }
        }
    }
}
