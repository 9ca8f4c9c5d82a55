// Reads vectors.json: whether the client beside it makes the same reports of the same coins.
import { readFileSync } from "node:fs";
import { KINDS, posted } from "./client.mjs";

const cases = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url)));
let n = 0;
for (const { mechanism, rows } of cases) {
  for (const [coins, code, report] of rows) {
    const stream = Uint8Array.from(coins.match(/../g), (pair) => parseInt(pair, 16));
    let end = 0;
    const bytes = (size) => stream.subarray(end, (end += size));
    const found = posted(KINDS[mechanism.kind].draw(mechanism, code, bytes));
    if (end !== stream.length || JSON.stringify(found) !== JSON.stringify(report)) {
      console.error(`${mechanism.kind}, code ${code}, coins ${coins}: ${JSON.stringify(found)} instead of ${JSON.stringify(report)}`);
      process.exit(1);
    }
    n += 1;
  }
}
console.log(`${n} vectors agree`);
