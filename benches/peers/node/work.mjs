// The jobs of both peers: they only count themselves.

export class Jobs {
  constructor(count) {
    this.count = count;
    this.ran = 0;
    this.twice = 0;
    this.seen = new Uint8Array(count);
    this.all = new Promise((resolve) => (this.resolve = resolve));
  }

  run(number) {
    if (this.seen[number]++ > 0) this.twice++;
    if (++this.ran === this.count) this.resolve();
  }
}

// Polls the database until the query returns true; the interval is far below the measured times.
export async function until(pool, question) {
  for (;;) {
    const { rows } = await pool.query(question);
    if (rows[0].done) return;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

export function report(jobs, began, ended) {
  const distinct = jobs.seen.reduce((sum, times) => sum + (times > 0 ? 1 : 0), 0);
  const took_s = (ended - began) / 1e3;
  console.log(JSON.stringify({ finished: jobs.ran, took_s, distinct, twice: jobs.twice }));
}

export function given() {
  const [setting, count] = process.argv.slice(2);
  const url = process.env.DATABASE_URL;
  if (!url || !['default', 'tuned'].includes(setting) || !(Number(count) > 0)) {
    console.error('usage: DATABASE_URL=… node FILE default|tuned COUNT');
    process.exit(2);
  }
  return { setting, count: Number(count), url };
}
