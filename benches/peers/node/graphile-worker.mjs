// No-op jobs on graphile-worker, all enqueued before the clock starts.
//
//     DATABASE_URL=… node graphile-worker.mjs default|tuned COUNT
//
// The clock runs from before the worker is made until the last job is gone from the table. Prints one JSON object.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';

import { Jobs, given, report, until } from './work.mjs';

const { setting, count, url } = given();

// `tuned` is what the performance page of its documentation gives its figures for.
const settings = {
  default: {},
  tuned: {
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
}[setting];

// What it would say about each job costs the default settings time, too.
const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(message);
});
const preset = { worker: { connectionString: url, logger, ...settings } };

const pool = new pg.Pool({ connectionString: url, max: 1 });
const utils = await makeWorkerUtils({ preset });
await utils.migrate();
for (let first = 0; first < count; first += 1000) {
  await utils.addJobs(
    Array.from({ length: Math.min(1000, count - first) }, (_, at) => ({
      identifier: 'nothing',
      payload: { number: first + at },
    })),
  );
}
await utils.release();
await pool.query('ANALYZE');

const jobs = new Jobs(count);
const began = performance.now();
const runner = await run({ preset, taskList: { nothing: async ({ number }) => jobs.run(number) } });
await jobs.all;
await until(pool, 'SELECT NOT EXISTS (SELECT FROM graphile_worker.jobs) AS done');
const ended = performance.now();
await runner.stop();
await pool.end();
report(jobs, began, ended);
