// Prints the JSON schema of MCP 2026-07-28, as one line of JSON. It is taken from the installed conformance
// suite, which carries it as an object literal inside its one bundled file.
import { readdirSync, readFileSync, existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runInNewContext } from "node:vm";

const BUNDLE = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
/** A definition that only this revision has. */
const MARK = "DiscoverResult";

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

function schema(source) {
  for (const { index } of source.matchAll(/\{\$schema:[`"']https?:\/\/json-schema\.org\/[^,]*,\$defs:/g)) {
    const literal = source.slice(index, end(source, index));
    if (!literal.includes(`${MARK}:{`)) continue;
    const value = runInNewContext(`(${literal})`, {}, { timeout: 5000 });
    if (value.$defs?.[MARK]) return value;
  }
  throw new Error(`the suite carries no schema that defines ${MARK}`);
}

process.stdout.write(JSON.stringify(schema(bundle())));
