// Counts in a file under the lock: URL FILE TIMES. A fence that does not grow ends it with an error.

import { readFile, writeFile } from 'node:fs/promises';

const { withLock } = await import(`${process.env.CLIENTS}/tenure-lock.mjs`);
const [url, file, times] = process.argv.slice(2);
for (let time = 0; time < Number(times); time += 1) {
  await withLock([url], 'counter', { ttl: 5_000, wait: 600_000, label: 'node' }, async (lock) => {
    const [count, fence] = (await readFile(file, 'utf8')).split(' ').map(Number);
    if (!(lock.fence > fence)) throw new Error(`fence ${lock.fence} after ${fence}`);
    lock.check();
    await writeFile(file, `${count + 1} ${lock.fence}\n`);
  });
}
