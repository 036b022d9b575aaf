import java.io.BufferedWriter;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;

import com.sun.management.OperatingSystemMXBean;

/**
 * What the runner and a driver say to each other. `System.nanoTime` is the machine's monotonic clock.
 */
final class Protocol {
    /** How many names a worker has that uses them again. */
    private static final int REUSED = 16;

    private Protocol() {}

    static Map<String, String> pairs(String[] words) {
        return Arrays.stream(words).map(word -> word.split("=", 2))
            .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
    }

    /** The CPU time of this process, in nanoseconds. */
    static long cpu() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    record Job(boolean holds, Map<String, String> values) {
        Job(String line) {
            this(line.startsWith("hold "), pairs(line.substring(line.indexOf(' ') + 1).split(" ")));
        }

        int tasks() {
            return Integer.parseInt(values.get("tasks"));
        }

        int locks() {
            return Integer.parseInt(values.get("locks"));
        }

        long holdMillis() {
            return Long.parseLong(values.get("hold_ms"));
        }

        long nanos() {
            return (long) (Double.parseDouble(values.get("seconds")) * 1e9);
        }

        String name(int task, int cycle) {
            String prefix = values.get("prefix");
            return switch (values.get("names")) {
                case "shared" -> prefix;
                case "reused" -> prefix + ":" + task + ":" + cycle % REUSED;
                default -> prefix + ":" + task + ":" + cycle;
            };
        }
    }

    static final class Done {
        private final StringBuilder holds = new StringBuilder();
        private int failed;
        private String error = "";
        int renewals;

        /** When a lock was asked for, had, given up, and gone. */
        void hold(int task, long called, long acquired, long released, long finished) {
            holds.append(task).append(' ').append(called).append(' ').append(acquired).append(' ')
                .append(released).append(' ').append(finished).append('\n');
        }

        void fail(Exception thrown) {
            failed++;
            if (error.isEmpty()) {
                error = String.valueOf(thrown).replaceAll("[\"\\\\\\p{Cntrl}]", " ");
            }
        }

        void add(Done other) {
            holds.append(other.holds);
            failed += other.failed;
            renewals += other.renewals;
            if (error.isEmpty()) {
                error = other.error;
            }
        }

        void print(long cpuNanos) {
            PrintWriter out = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out)));
            out.print(holds);
            out.printf("{\"cpu_us\":%d,\"failed\":%d,\"renewals\":%d,\"error\":\"%s\"}%n",
                cpuNanos / 1000, failed, renewals, error);
            out.flush();
        }
    }
}
