package kafkalog.oracle;

import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DumpLogSegments;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;

/** Runs the main() of the real dump tool in this JVM, with the output and exit status that a JVM of its own would give. */
final class DumpLog {
    private static final long LIMIT_MS = 60_000;

    private static final class Stop extends RuntimeException {
        final int code;

        Stop(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    private DumpLog() { }

    /** Puts stdout and stderr (base64) and exit into the result; exit -1 for a run that does not end. */
    static void run(List<String> args, ObjectNode result) throws Exception {
        Exit.Procedure stop = (code, message) -> {
            throw new Stop(code);
        };
        Exit.setExitProcedure(stop);
        Exit.setHaltProcedure(stop);
        ByteArrayOutputStream stdout = new ByteArrayOutputStream();
        ByteArrayOutputStream stderr = new ByteArrayOutputStream();
        PrintStream oldOut = System.out;
        PrintStream oldErr = System.err;
        PrintStream out = new PrintStream(stdout, true, StandardCharsets.UTF_8);
        PrintStream err = new PrintStream(stderr, true, StandardCharsets.UTF_8);
        int[] exit = {0};
        Thread tool = new Thread(() -> exit[0] = call(args, err), "main");
        tool.setDaemon(true);
        System.setOut(out);
        System.setErr(err);
        try {
            tool.start();
            tool.join(LIMIT_MS);
        } finally {
            out.flush();
            err.flush();
            System.setOut(oldOut);
            System.setErr(oldErr);
        }
        Base64.Encoder base64 = Base64.getEncoder();
        result.put("stdout", base64.encodeToString(stdout.toByteArray()))
            .put("stderr", base64.encodeToString(stderr.toByteArray())).put("exit", tool.isAlive() ? -1 : exit[0]);
    }

    private static int call(List<String> args, PrintStream err) {
        try {
            DumpLogSegments.main(args.toArray(new String[0]));
            return 0;
        } catch (Stop stop) {
            return stop.code;
        } catch (Throwable failure) {
            trim(failure, Collections.newSetFromMap(new IdentityHashMap<>()));
            err.print("Exception in thread \"main\" ");
            failure.printStackTrace(err);
            return 1;
        }
    }

    /** Cuts the frames below the tool's own main(). */
    private static void trim(Throwable failure, Set<Throwable> seen) {
        if (failure == null || !seen.add(failure)) return;
        StackTraceElement[] frames = failure.getStackTrace();
        for (int i = frames.length - 1; i >= 0; i--) {
            if (frames[i].getClassName().equals(DumpLogSegments.class.getName()) && frames[i].getMethodName().equals("main")) {
                failure.setStackTrace(Arrays.copyOf(frames, i + 1));
                break;
            }
        }
        trim(failure.getCause(), seen);
        for (Throwable suppressed : failure.getSuppressed()) trim(suppressed, seen);
    }
}
