// SPDX-License-Identifier: Apache-2.0
// Node's fetch on one call: `node fetch.mjs URL BODY`. Prints a JSON line for the head, for each piece and for the end.
const [url, body] = process.argv.slice(2);
const say = (fields) => process.stdout.write(JSON.stringify(fields) + "\n");

try {
  const response = await fetch(url, { method: "POST", body, headers: { "Content-Type": "application/json" } });
  say({ status: response.status });
  for await (const piece of response.body) {
    say({ piece: Buffer.from(piece).toString("latin1") });
  }
  say({ end: "complete" });
} catch (error) {
  say({ end: "error", error: String(error), cause: error.cause?.code ?? String(error.cause) });
}
