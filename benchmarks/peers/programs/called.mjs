// How a program for Node is called: `node PROGRAM.mjs prepare | enqueue FIRST COUNT [BEGIN STEP] | schedule COUNT | work`.

export const url = process.env.PEER_DATABASE_URL;
export const work = process.env.PEER_WORK; // drain, start_lag or minute_mark: what the configuration is for
export const schedules = Number(process.env.PEER_SCHEDULES ?? 0);
export const TEXT = "some payload of moderate length, about a hundred bytes in all, as most of them are.";

const PER_STATEMENT = 5_000;

/** The jobs to be made, in batches: `n`, and `due` (a Date) where they are due in the future. */
export function* batches([first, count, begin, step]) {
  const [from, until] = [Number(first), Number(first) + Number(count)];
  for (let low = from; low < until; low += PER_STATEMENT) {
    const numbers = Array.from({ length: Math.min(PER_STATEMENT, until - low) }, (_, i) => low + i);
    yield numbers.map((n) => ({
      n,
      due: begin === undefined ? undefined : new Date(1000 * (Number(begin) + (n - from) * Number(step))),
    }));
  }
}

/** Run the verb that was asked for. A verb that is not `work` ends the process when it is through. */
export async function main(verbs) {
  const [verb, ...rest] = process.argv.slice(2);
  await verbs[verb](rest);
  if (verb !== "work") process.exit(0);
}
