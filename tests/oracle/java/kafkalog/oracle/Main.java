package kafkalog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Entry point: one command, or {@code serve} for many commands in one JVM. */
public final class Main {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = new PrintStream(
        new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, StandardCharsets.UTF_8);

    interface Command {
        void run(Options options, ObjectNode result) throws Exception;
    }

    private Main() { }

    public static void main(String[] args) throws Exception {
        if (args.length == 0 || args[0].equals("--help") || args[0].equals("help")) {
            System.err.println("usage: COMMAND ... | serve   (see README.md)");
            System.exit(args.length == 0 ? 2 : 0);
        }
        int status = 0;
        if (args[0].equals("serve")) serve();
        else status = execute(Arrays.asList(args), OUT);
        OUT.flush();
        System.exit(status);
    }

    /** Reads one JSON array of arguments per line and answers with one JSON line each. */
    private static void serve() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.isBlank()) continue;
            List<String> args = new ArrayList<>();
            for (JsonNode node : JSON.readTree(line)) args.add(node.asText());
            execute(args, OUT);
            OUT.flush();
        }
    }

    private static Command find(String name) {
        return switch (name) {
            case "recover", "open", "retain", "roll", "truncate", "truncate-fully", "delete-records" -> new Maintenance(name);
            case "append" -> new Append();
            case "fetch" -> Reads::fetch;
            case "lookup" -> Reads::lookup;
            case "compact" -> new Compact();
            case "small-files" -> SmallFiles::read;
            case "gen" -> new Generate();
            case "iterate" -> Iterate::run;
            case "batches" -> Batches::write;
            case "decode" -> Batches::decode;
            case "message" -> Messages::read;
            default -> throw new IllegalArgumentException("no such command: " + name);
        };
    }

    static int execute(List<String> args, PrintStream out) throws Exception {
        ObjectNode result = JSON.createObjectNode();
        result.put("command", args.get(0));
        Options options = null;
        long start = System.nanoTime();
        int status = 0;
        try {
            if (args.get(0).equals("dump-log")) {
                DumpLog.run(args.subList(1, args.size()), result);
            } else {
                Command command = find(args.get(0));
                options = new Options(args.subList(1, args.size()));
                command.run(options, result);
            }
        } catch (Throwable failure) {
            status = 1;
            result.put("failed", text(failure, options));
            if (System.getenv("KAFKA_ENGINE_TRACE") != null) failure.printStackTrace();
        }
        if (!result.has("elapsedMs")) result.put("elapsedMs", (System.nanoTime() - start) / 1_000 / 1e3);
        if (options == null || !options.has("quiet")) out.println(JSON.writeValueAsString(result));
        return status;
    }

    /** "class: message", causes included, with the directory's own path taken out. */
    static String text(Throwable failure, Options options) {
        StringBuilder text = new StringBuilder();
        for (Throwable t = failure; t != null; t = t.getCause()) {
            if (text.length() > 0) text.append(" <- ");
            text.append(t.getClass().getName()).append(": ").append(t.getMessage());
        }
        String full = text.toString();
        if (options != null && !options.positional.isEmpty()) {
            File dir = new File(options.positional.get(0)).getAbsoluteFile();
            full = full.replace(dir.getPath(), "DIR");
            if (dir.getParent() != null && dir.getParent().length() > 1) full = full.replace(dir.getParent(), "LOGDIR");
        }
        return full;
    }
}
