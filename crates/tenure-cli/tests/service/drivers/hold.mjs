// Holds the lock until it is lost: URL TTL_MS.

const { LockLost, withLock } = await import(`${process.env.CLIENTS}/tenure-lock.mjs`);
try {
  await withLock([process.argv[2]], 'x', { ttl: Number(process.argv[3]), wait: 60_000 }, async (lock) => {
    console.log('held');
    await new Promise((_, fail) => lock.signal.addEventListener('abort', () => fail(lock.signal.reason)));
  });
} catch (error) {
  if (!(error instanceof LockLost)) throw error;
  console.log('lost');
}
