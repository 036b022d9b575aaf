import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * The Java peers of `cargo xtask bench peers`: Redisson's RedLock on five Redis nodes, its RLock on
 * one. Both block their thread and are woken by a message. Tuned, a node that does not answer within
 * 500 ms is given up on, and there are fewer threads.
 */
public final class Peers {
    /** A third of the watchdog's 30 s. */
    private static final long RENEWAL_SECONDS = 10;

    private final List<RedissonClient> clients = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        Map<String, String> values = Protocol.pairs(arguments);
        long begun = System.nanoTime();
        Peers peers = new Peers(values);
        RLock first = peers.lock("first:" + begun);
        first.lock();
        System.out.println("ready " + (System.nanoTime() - begun));
        first.unlock();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            Protocol.Job job = new Protocol.Job(line);
            if (job.holds()) {
                peers.hold(job);
            } else {
                peers.work(job);
            }
        }
        System.exit(0);
    }

    private Peers(Map<String, String> values) {
        boolean tuned = values.get("settings").equals("tuned");
        String[] nodes = values.get("nodes").split(",");
        boolean single = values.get("peer").equals("redisson-rlock");
        for (String node : single ? new String[] {nodes[0]} : nodes) {
            Config config = new Config();
            var server = config.useSingleServer().setAddress("redis://" + node);
            if (tuned) {
                config.setNettyThreads(4);
                server.setTimeout(500).setRetryAttempts(0);
            }
            clients.add(Redisson.create(config));
        }
    }

    private RLock lock(String name) {
        RLock[] locks = clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new);
        return locks.length == 1 ? locks[0] : new RedissonRedLock(locks);
    }

    private void work(Protocol.Job job) throws Exception {
        long before = Protocol.cpu(), end = System.nanoTime() + job.nanos();
        Protocol.Done all = each(job.tasks(), (task, done) -> {
            for (int cycle = 0; System.nanoTime() < end; cycle++) {
                long called = System.nanoTime();
                try {
                    RLock lock = lock(job.name(task, cycle));
                    lock.lock();
                    long acquired = System.nanoTime();
                    if (job.holdMillis() > 0) {
                        Thread.sleep(job.holdMillis());
                    }
                    long released = System.nanoTime();
                    lock.unlock();
                    done.hold(task, called, acquired, released, System.nanoTime());
                } catch (Exception error) {
                    done.fail(error);
                }
            }
        });
        all.print(Protocol.cpu() - before);
    }

    /** One thread holds all: a lock belongs to the thread that acquired it. */
    private void hold(Protocol.Job job) throws Exception {
        List<RLock> locks = new ArrayList<>();
        for (int number = 0; number < job.locks(); number++) {
            RLock lock = lock(job.name(0, number));
            lock.lock();
            locks.add(lock);
        }
        Thread.sleep(RENEWAL_SECONDS * 500);
        long before = Protocol.cpu();
        TimeUnit.NANOSECONDS.sleep(job.nanos());
        long spent = Protocol.cpu() - before;
        Protocol.Done done = new Protocol.Done();
        done.renewals = (int) (job.locks() * (job.nanos() / 1e9) / RENEWAL_SECONDS);
        for (RLock lock : locks) {
            try {
                lock.unlock();
            } catch (Exception error) {
                done.fail(error);
            }
        }
        done.print(spent);
    }

    private interface Task {
        void run(int task, Protocol.Done done);
    }

    private static Protocol.Done each(int tasks, Task run) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(tasks);
        List<Future<Protocol.Done>> parts = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            int number = task;
            parts.add(pool.submit(() -> {
                Protocol.Done done = new Protocol.Done();
                run.run(number, done);
                return done;
            }));
        }
        Protocol.Done all = new Protocol.Done();
        for (Future<Protocol.Done> part : parts) {
            all.add(part.get());
        }
        pool.shutdown();
        return all;
    }
}
