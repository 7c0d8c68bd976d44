// graphile-worker. Options: worker.graphile.org/docs/config and /docs/performance (its own figures are of this configuration:
// 24 concurrent jobs, 25 connections, a local queue of 500, completions in batches without delay).

import { Logger, makeWorkerUtils, parseCronItems, run } from "graphile-worker";

import { TEXT, batches, main, schedules, url, work } from "./called.mjs";
import { note } from "./notes.mjs";

const logger = new Logger(() => (level, message) => level === "error" && console.error(message));
const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
// A job that is due later is found by polling, every two seconds unless told otherwise (pollInterval); a job is then taken at
// once by a free slot, so that a local queue would only add to its lag.
const polled = { pollInterval: 10 };

const preset = {
  worker: {
    connectionString: url,
    concurrentJobs: 24,
    maxPoolSize: 25,
    logger,
    ...(work === "start_lag" ? polled : batched),
  },
};

const taskList = { noop: (payload) => note(payload.n) };

/** Cron items stand in code or in a file, not in the database. */
function cronItems() {
  return parseCronItems(
    Array.from({ length: schedules }, (_, n) => ({
      task: "noop", match: "* * * * *", payload: { n, b: TEXT }, identifier: `every-${n}`,
    })),
  );
}

await main({
  async prepare() {
    const utils = await makeWorkerUtils({ connectionString: url, logger });
    await utils.migrate();
    await utils.release();
  },
  async enqueue(which) {
    const utils = await makeWorkerUtils({ connectionString: url, logger });
    for (const batch of batches(which)) {
      await utils.addJobs(batch.map(({ n, due }) => ({ identifier: "noop", payload: { n, b: TEXT }, runAt: due })));
    }
    await utils.release();
  },
  async work() {
    const runner = await run({ preset, taskList, parsedCronItems: cronItems() });
    await runner.promise;
  },
});
