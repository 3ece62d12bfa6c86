// No-op jobs on pg-boss, all enqueued before the measurement.
//
//     DATABASE_URL=… node pg-boss.mjs default|tuned COUNT
//
// Measures from before the start of the workers until the last job is completed in the table. Prints one JSON object.
import pg from 'pg';
import PgBoss from 'pg-boss';

import { Jobs, given, report, until } from './work.mjs';

const { setting, count, url } = given();
const WORKERS = 2;
const BATCH = 5000;
const queue = 'nothing';

const boss = new PgBoss({ connectionString: url });
boss.on('error', (error) => console.error(error));
await boss.start();
await boss.createQueue(queue);
for (let first = 0; first < count; first += 1000) {
  const some = Array.from({ length: Math.min(1000, count - first) }, (_, at) => ({
    name: queue,
    data: { number: first + at },
  }));
  await boss.insert(some);
}
const pool = new pg.Pool({ connectionString: url, max: 1 });
await pool.query('ANALYZE');

const jobs = new Jobs(count);
const began = performance.now();
if (setting === 'default') {
  // One job every two seconds.
  await boss.work(queue, async ([job]) => jobs.run(job.data.number));
} else {
  for (let worker = 0; worker < WORKERS; worker++) {
    // A worker sleeps after each batch unless it is notified.
    let id;
    const options = { batchSize: BATCH, priority: false, pollingIntervalSeconds: 0.5 };
    id = await boss.work(queue, options, async (batch) => {
      for (const job of batch) jobs.run(job.data.number);
      boss.notifyWorker(id);
    });
  }
}
await jobs.all;
await until(pool, "SELECT NOT EXISTS (SELECT FROM pgboss.job WHERE name = 'nothing' AND state <> 'completed') AS done");
const ended = performance.now();
await boss.stop({ graceful: false, wait: true });
await pool.end();
report(jobs, began, ended);
