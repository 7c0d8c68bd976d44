// pg-boss. Options: pgboss.io/api/workers, /api/queues, /api/constructor.

import { PgBoss } from "pg-boss";

import { TEXT, batches, main, schedules, url, work } from "./called.mjs";
import { note } from "./notes.mjs";

const QUEUE = "noop";

async function started(options = {}) {
  const boss = new PgBoss({ connectionString: url, schedule: false, supervise: false, ...options });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

await main({
  async prepare() {
    const boss = await started();
    // `notify`: workers are woken by LISTEN/NOTIFY instead of the next poll.
    await boss.createQueue(QUEUE, { notify: true });
    await boss.stop();
  },
  async enqueue(which) {
    const boss = await started();
    for (const batch of batches(which)) {
      await boss.insert(QUEUE, batch.map(({ n, due }) => ({ data: { n, b: TEXT }, startAfter: due })));
    }
    await boss.stop();
  },
  async schedule([count]) {
    const boss = await started();
    for (let n = 0; n < Number(count); n++) {
      await boss.schedule(QUEUE, "* * * * *", { n, b: TEXT }, { key: `every-${n}` });
    }
    await boss.stop();
  },
  async work() {
    const cron = work === "minute_mark";
    const boss = await started({
      useListenNotify: true,
      supervise: true,
      schedule: cron,
      // Both default to longer, and are documented as what to lower where a schedule's lag matters.
      ...(cron ? { cronMonitorIntervalSeconds: 1, cronWorkerIntervalSeconds: 1 } : {}),
    });
    // The least poll interval that is allowed; a full batch is followed by the next fetch at once.
    await boss.work(
      QUEUE,
      {
        batchSize: work === "drain" ? 1000 : 200,
        pollingIntervalSeconds: 0.5,
        notifyPollingIntervalSeconds: 0.5,
        burstWhenBatchFull: true,
        localConcurrency: 2,
      },
      async (jobs) => {
        for (const job of jobs) note(job.data.n);
      },
    );
    process.on("SIGTERM", () => boss.stop().then(() => process.exit(0)));
  },
});
