// Asks secretlint about a folder of texts and about one large file, and says in JSON what it found and how long the file took.
//
//     scan.mjs secretlint FOLDER FILE
//
// Lies beside its node_modules when it runs (scripts/setup bench copies it there).

import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { lintSource } from "@secretlint/core";
import { creator } from "@secretlint/secretlint-rule-preset-recommend";

const [, folder, large] = process.argv.slice(2);
const config = { rules: [{ id: "@secretlint/secretlint-rule-preset-recommend", rule: creator, options: {} }] };

async function lines(path) {
  const content = readFileSync(path, "utf8");
  const source = { filePath: path, content, contentType: "text", ext: ".txt" };
  const result = await lintSource({ source, options: { config, maskSecrets: false } });
  // Its profiler keeps every mark, and would be slower with every file.
  performance.clearMarks();
  performance.clearMeasures();
  return [...new Set(result.messages.flatMap(({ loc }) => [loc.start.line, loc.end.line]))];
}

const times = [];
for (let round = 0; round < 5; round += 1) {
  const start = performance.now();
  await lines(large);
  times.push((performance.now() - start) / 1000);
}
const seconds = times.sort((a, b) => a - b)[2];
const found = {};
for (const name of readdirSync(folder)) {
  found[name] = await lines(join(folder, name));
}
const version = createRequire(import.meta.url)("@secretlint/core/package.json").version;
writeFileSync(1, JSON.stringify({ version, seconds, bytes: statSync(large).size, lines: found }));
process.exit(0);
