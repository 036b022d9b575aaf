<?php
// The PHP peers of `cargo xtask interop`: redlock-php and the Redis mutex of Yii2. See ../README.md
// for the protocol.
error_reporting(E_ALL & ~E_DEPRECATED);
ini_set('display_errors', 'stderr');

/** The class RedLock, one lock at a time. */
final class RedlockPhp
{
    private array $held = [];
    private RedLock $client;
    private RedLock $once;

    public function __construct(array $values)
    {
        require $values['source'] . '/src/RedLock.php';
        $servers = array_map(
            fn (string $node) => [...explode(':', $node), 1.0],
            explode(',', $values['nodes'])
        );
        $this->client = new RedLock($servers);
        $this->once = new RedLock($servers, 1, 1);
    }

    public function acquire(string $name, int $ttl, bool $once): bool
    {
        $lock = ($once ? $this->once : $this->client)->lock($name, $ttl);
        if ($lock !== false) {
            $this->held[$name] = $lock;
        }
        return $lock !== false;
    }

    /** It does not tell whether the lock was still there. */
    public function release(string $name): bool
    {
        $lock = $this->held[$name] ?? throw new Exception('not locked here');
        unset($this->held[$name]);
        $this->client->unlock($lock);
        return true;
    }
}

/** The mutex component of a Yii2 application. */
final class Yii2
{
    private \yii\redis\Mutex $mutex;

    public function __construct(array $values)
    {
        define('YII_DEBUG', false);
        [$framework, $redis] = explode(',', $values['source']);
        require "$framework/framework/Yii.php";
        Yii::setAlias('@yii/redis', "$redis/src");
        [$host, $port] = explode(':', $values['nodes']);
        new \yii\console\Application([
            'id' => 'interop',
            'basePath' => __DIR__,
            'vendorPath' => dirname($framework),
            'components' => ['redis' => [
                'class' => \yii\redis\Connection::class, 'hostname' => $host, 'port' => (int) $port,
            ]],
        ]);
        $this->mutex = new \yii\redis\Mutex(['keyPrefix' => $values['prefix'] ?? '']);
    }

    /** The term is a setting of the component, in seconds. */
    public function acquire(string $name, int $ttl, bool $once): bool
    {
        $this->mutex->expire = $ttl / 1000;
        return $this->mutex->acquire($name, $once ? 0 : 1);
    }

    public function release(string $name): bool
    {
        return $this->mutex->release($name);
    }

    public function key(string $name): string
    {
        return (new ReflectionMethod($this->mutex, 'calculateKey'))->invoke($this->mutex, $name);
    }
}

function perform(RedlockPhp|Yii2 $peer, array $words): array
{
    [$verb, $name] = [$words[0], $words[1] ?? ''];
    $number = fn (int $word): int => (int) $words[$word];
    switch ($verb) {
        case 'try':
            return ['ok' => $peer->acquire($name, $number(2), true)];
        case 'lock':
            return ['ok' => $peer->acquire($name, $number(2), false)];
        case 'wait':
            return ['ok' => wait($peer, $name, $number(2), $number(3))];
        case 'unlock':
            return ['ok' => $peer->release($name)];
        case 'count':
            return count_up($peer, $name, $number(2), $words[3], $number(4));
        case 'turns':
            return turns($peer, $name, $number(2), $number(3), $number(4));
        case 'key':
            return ['ok' => true, 'key' => $peer->key(hex2bin($name))];
    }
    throw new Exception("unknown: $verb");
}

/** Asks again and again: each call gives up after a moment. */
function wait(RedlockPhp|Yii2 $peer, string $name, int $ttl, int $patience_ms): bool
{
    $end = hrtime(true) + $patience_ms * 1_000_000;
    do {
        if ($peer->acquire($name, $ttl, false)) {
            return true;
        }
    } while (hrtime(true) < $end);
    return false;
}

function count_up(RedlockPhp|Yii2 $peer, string $name, int $ttl, string $file, int $times): array
{
    for ($done = 0; $done < $times; $done++) {
        if (!wait($peer, $name, $ttl, 60_000)) {
            throw new Exception('no lock within a minute');
        }
        $number = (int) file_get_contents($file);
        file_put_contents($file, (string) ($number + 1));
        $peer->release($name);
    }
    return ['ok' => true, 'done' => $times];
}

function turns(RedlockPhp|Yii2 $peer, string $name, int $ttl, int $hold_ms, int $duration_ms): array
{
    $end = hrtime(true) + $duration_ms * 1_000_000;
    for ($turns = 0; hrtime(true) < $end;) {
        if ($peer->acquire($name, $ttl, false)) {
            $turns++;
            usleep($hold_ms * 1000);
            $peer->release($name);
        }
    }
    return ['ok' => true, 'done' => $turns];
}

function say(array $answer): void
{
    echo json_encode($answer), "\n";
}

$values = [];
foreach (array_slice($argv, 1) as $argument) {
    [$name, $value] = explode('=', $argument, 2);
    $values[$name] = $value;
}
$peer = $values['peer'] === 'yii2' ? new Yii2($values) : new RedlockPhp($values);
say(['ready' => true, 'version' => $peer instanceof Yii2 ? Yii::getVersion() : $values['version']]);
while (($line = fgets(STDIN)) !== false) {
    $begun = hrtime(true);
    try {
        $answer = perform($peer, explode(' ', rtrim($line, "\n")));
    } catch (Throwable $error) {
        $answer = ['ok' => false, 'error' => get_class($error) . ': ' . $error->getMessage()];
    }
    say($answer + ['begun' => $begun, 'ended' => hrtime(true)]);
}
