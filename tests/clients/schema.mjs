// Prints the JSON schemas of MCP, as one line of JSON: an object with one member for each revision. They are taken
// from the installed conformance suite, which carries them as object literals inside its one bundled file.
import { readdirSync, readFileSync, existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runInNewContext } from "node:vm";

const BUNDLE = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
/** By what a revision's schema is told from the others: definitions that it has, and some that it lacks. */
const REVISIONS = {
  "2026-07-28": { has: ["DiscoverResult"], lacks: [] },
  "2025-11-25": { has: ["GetTaskPayloadResult"], lacks: ["DiscoverResult"] },
  "2025-06-18": { has: ["ElicitRequest"], lacks: ["GetTaskPayloadResult", "DiscoverResult"] },
  "2025-03-26": { has: ["JSONRPCBatchRequest"], lacks: ["ElicitRequest"] },
};

/** The suite may be installed beside this program or in a folder of its own below. */
function bundle() {
  const here = dirname(fileURLToPath(import.meta.url));
  const folders = readdirSync(here, { withFileTypes: true }).filter((e) => e.isDirectory() && e.name !== "node_modules");
  const found = [here, ...folders.map((e) => join(here, e.name))].map((f) => join(f, BUNDLE)).find(existsSync);
  if (!found) throw new Error(`no folder below tests/clients has ${BUNDLE}`);
  return readFileSync(found, "utf8");
}

/** The end of the object literal that begins at `start`; text in quotes does not count. */
function end(source, start) {
  let depth = 0;
  let quote = "";
  for (let at = start; at < source.length; at++) {
    const c = source[at];
    if (c === "\\") at++;
    else if (quote) quote = c === quote ? "" : quote;
    else if (c === '"' || c === "'" || c === "`") quote = c;
    else if (c === "{") depth++;
    else if (c === "}" && --depth === 0) return at + 1;
  }
  throw new Error("an object literal without an end");
}

function schemas(source) {
  const found = {};
  for (const { index } of source.matchAll(/\{\$schema:[`"']https?:\/\/json-schema\.org\/[^,]*,(\$defs|definitions):/g)) {
    const literal = source.slice(index, end(source, index));
    if (!literal.includes("CallToolResult:{")) continue;
    const value = runInNewContext(`(${literal})`, {}, { timeout: 5000 });
    const names = value.$defs ?? value.definitions;
    for (const [revision, { has, lacks }] of Object.entries(REVISIONS)) {
      if (has.every((name) => names[name]) && !lacks.some((name) => names[name])) found[revision] = value;
    }
  }
  for (const revision of Object.keys(REVISIONS)) {
    if (!found[revision]) throw new Error(`the suite carries no schema of MCP ${revision}`);
  }
  return found;
}

process.stdout.write(JSON.stringify(schemas(bundle())));
