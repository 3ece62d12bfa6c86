// No-op jobs on graphile-worker, all enqueued before the measurement.
//
//     DATABASE_URL=… node graphile-worker.mjs default|tuned COUNT
//
// Measures from before the start of the worker until the last job is deleted from the table. Prints one JSON object.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';

import { Jobs, given, report, until } from './work.mjs';

const { setting, count, url } = given();

// `tuned` are the settings of the performance page in its documentation.
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

// A log line per job would cost time.
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
