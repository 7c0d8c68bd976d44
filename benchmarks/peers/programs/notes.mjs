// When handlers began, noted by a worker process on Node: what notes.py is for Python, byte for byte.

import fs from "node:fs";

const EVERY_MS = 10;
const file = fs.openSync(`${process.env.PEER_FOLDER}/notes-${process.pid}`, "a");
let noted = [];

// Node's Date.now() has whole milliseconds only; this clock has the fractions, too.
export const now = () => (performance.timeOrigin + performance.now()) / 1000;

/** The handler of the job with this number begins. */
export function note(number) {
  noted.push(number, now());
}

setInterval(() => {
  if (noted.length > 0) {
    fs.writeSync(file, new Uint8Array(Float64Array.from(noted).buffer));
    noted = [];
  }
}, EVERY_MS).unref();
