import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * The Java peer of `cargo xtask interop`: Redisson's RLock on one node, its RedLock on several. See
 * ../README.md for the protocol. A lock belongs to the thread that acquired it, so one thread does
 * everything. A term of 0 leaves the lock to the watchdog.
 */
public final class Driver {
    private final RedissonClient[] clients;
    private final Map<String, RLock> locks = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Map<String, String> values = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            values.put(parts[0], parts[1]);
        }
        Driver driver = new Driver(values);
        String version = RedissonClient.class.getPackage().getImplementationVersion();
        say(new LinkedHashMap<>(Map.of("ready", true, "version", String.valueOf(version))));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            Map<String, Object> answer = new LinkedHashMap<>();
            long begun = System.nanoTime();
            try {
                driver.perform(line.split(" "), answer);
            } catch (Exception error) {
                answer.put("ok", false);
                answer.put("error", error.toString());
            }
            answer.put("begun", begun);
            answer.put("ended", System.nanoTime());
            say(answer);
        }
        System.exit(0);
    }

    private Driver(Map<String, String> values) {
        String[] nodes = values.get("nodes").split(",");
        clients = new RedissonClient[nodes.length];
        for (int node = 0; node < nodes.length; node++) {
            Config config = new Config();
            config.setNettyThreads(2).setThreads(2);
            if (values.containsKey("watchdog_ms")) {
                config.setLockWatchdogTimeout(Long.parseLong(values.get("watchdog_ms")));
            }
            // A driver that starts while some nodes are gone connects when it needs them.
            config.setLazyInitialization(nodes.length > 1);
            var server = config.useSingleServer().setAddress("redis://" + nodes[node]);
            server.setConnectionMinimumIdleSize(1).setConnectionPoolSize(4);
            if (values.containsKey("timeout_ms")) {
                int limit = Integer.parseInt(values.get("timeout_ms"));
                server.setTimeout(limit).setConnectTimeout(limit).setRetryAttempts(0);
            }
            clients[node] = Redisson.create(config);
        }
    }

    private void perform(String[] words, Map<String, Object> answer) throws Exception {
        String name = words.length > 1 ? words[1] : "";
        boolean ok = true;
        switch (words[0]) {
            case "try" -> ok = acquire(name, 0, number(words[2]));
            // As long as it takes, with RedLock and with RLock alike; the runner has a limit.
            case "lock" -> ok = acquire(name, 60_000, number(words[2]));
            case "wait" -> ok = acquire(name, number(words[3]), number(words[2]));
            case "unlock" -> lock(name).unlock();
            case "holds" -> answer.put("count", lock(name).getHoldCount());
            case "id" -> answer.put("id", clients[0].getId() + ":" + Thread.currentThread().getId());
            case "count" -> answer.put("done", count(name, number(words[2]), Path.of(words[3]), number(words[4])));
            case "turns" -> answer.put("done", turns(name, number(words[2]), number(words[3]), number(words[4])));
            default -> throw new IllegalArgumentException("unknown: " + String.join(" ", words));
        }
        answer.put("ok", ok);
    }

    private RLock lock(String name) {
        return locks.computeIfAbsent(name, this::fresh);
    }

    private RLock fresh(String name) {
        RLock[] each = new RLock[clients.length];
        for (int node = 0; node < each.length; node++) {
            each[node] = clients[node].getLock(name);
        }
        return each.length == 1 ? each[0] : new RedissonRedLock(each);
    }

    private boolean acquire(String name, long patience, long ttl) throws InterruptedException {
        return lock(name).tryLock(patience, ttl == 0 ? -1 : ttl, TimeUnit.MILLISECONDS);
    }

    private long count(String name, long ttl, Path file, long times) throws Exception {
        for (long done = 0; done < times; done++) {
            while (!acquire(name, 60_000, ttl)) {
            }
            int number = Integer.parseInt(Files.readString(file));
            Files.writeString(file, String.valueOf(number + 1));
            release(name);
        }
        return times;
    }

    private long turns(String name, long ttl, long hold, long duration) throws Exception {
        long turns = 0;
        for (long end = System.nanoTime() + duration * 1_000_000; System.nanoTime() < end; ) {
            if (acquire(name, 1_000, ttl)) {
                turns++;
                Thread.sleep(hold);
                release(name);
            }
        }
        return turns;
    }

    /** A RedLock complains about every node that is gone. */
    private void release(String name) {
        try {
            lock(name).unlock();
        } catch (RuntimeException error) {
            if (clients.length == 1) {
                throw error;
            }
        }
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }

    private static void say(Map<String, Object> answer) {
        StringBuilder text = new StringBuilder();
        answer.forEach((name, value) -> {
            String shown = value instanceof String ? "\"" + escaped((String) value) + "\"" : String.valueOf(value);
            text.append(text.length() == 0 ? "{" : ",").append('"').append(name).append("\":").append(shown);
        });
        System.out.println(text + "}");
    }

    private static String escaped(String text) {
        StringBuilder escaped = new StringBuilder();
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                escaped.append('\\');
            }
            escaped.append(each < ' ' ? ' ' : each);
        }
        return escaped.toString();
    }
}
