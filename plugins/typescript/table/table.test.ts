import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Cancelled, Unsupported } from "layby";
import { Host } from "layby/testing";

import { twoDecimals } from "./decimals.ts";
import { tableReader } from "./reader.ts";
import { summarizeTable } from "./table.ts";

const folder = mkdtempSync(join(tmpdir(), "tables-"));

/** What the tool says of a table that it is given as a file. */
async function ofFile(bytes: string | Uint8Array, host = new Host({ folders: { "/t": folder } })) {
  writeFileSync(join(folder, "a.csv"), bytes);
  return host.call(summarizeTable, { path: "/t/a.csv" });
}

/** The rows of a table that comes in pieces of `size` bytes. */
function rowsOf(table: string, size: number): string[][] {
  const bytes = new TextEncoder().encode(table);
  const pieces = [];
  for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size));
  const rows: string[][] = [];
  const keep = (cells: string[]) => void rows.push([...cells]);
  tableReader(keep, keep).readChunks(pieces);
  return rows;
}

test("numbers are written as C writes them", () => {
  const cases: [number, string][] = [
    [0.125, "0.12"],
    [0.375, "0.38"],
    [-0.125, "-0.12"],
    [2.675, "2.67"],
    [1e22, "10000000000000000000000.00"],
    [-0, "-0.00"],
    [-0.001, "-0.00"],
    [3, "3.00"],
  ];
  for (const [value, expected] of cases) assert.equal(twoDecimals(value), expected);
});

test("statistics in words and as structured content", async () => {
  const { text, structured } = await new Host().call(summarizeTable, { csv: "id,name\r\n1,Ada\r\n2,\r\n3,🙂é\r\n" });
  assert.equal(
    text,
    "3 rows, 2 columns, key: id\n" +
      "id: integer, 3 values, 3 distinct, 1 to 3, mean 2.00\n" +
      "name: text, 2 values, 1 missing, 2 distinct, 2 to 3 characters",
  );
  assert.deepEqual(structured, {
    rows: 3,
    key: "id",
    duplicates: 0,
    columns: [
      { name: "id", type: "integer", values: 3, missing: 0, distinct: 3, min: 1, max: 3, mean: 2 },
      { name: "name", type: "text", values: 2, missing: 1, distinct: 2, shortest: 2, longest: 3 },
    ],
  });
});

test("pieces of any size give the same rows", () => {
  const table = '\ufeffa,b\n\n"x\ny",é\r\n"",""\n"q""q, "  ,🙂\n\r\n1,2';
  const expected = [["a", "b"], ["x\ny", "é"], ["", ""], ['q"q,', "🙂"], ["1", "2"]];
  for (let size = 1; size <= 40; size++) assert.deepEqual(rowsOf(table, size), expected, `pieces of ${size}`);
});

test("malformed tables are told by their line", async () => {
  const cases: [string | Uint8Array, string][] = [
    ["", "line 1: the table has no header"],
    ["\n\na,,c\n", "line 3: column 2 has no name"],
    ["a,b, a\n", 'line 1: two columns are named "a"'],
    ['a,b\n"x\n\ny",1\n1,2,3\n', "line 5: 3 fields, and the header has 2"],
    ['a,b\n1,2\n3,"x\ny', "line 3: a quoted field is not closed"],
    [Uint8Array.from([97, 10, 49, 10, 255, 10, 50]), "line 3: not UTF-8"],
  ];
  for (const [table, expected] of cases) {
    const { isError, text } = await ofFile(table);
    assert.deepEqual([isError, text], [true, expected]);
  }
});

test("a blank line is no row, and an empty field in quotes is one", async () => {
  const { text } = await ofFile('a\n""\n\n1\n', new Host({ folders: { "/t": folder }, answers: { key_column: "decline" } }));
  assert.match(text, /^2 rows, 1 columns, no key\na: integer, 1 values, 1 missing/);
});

test("a file that is not there", async () => {
  const { isError, text } = await new Host().call(summarizeTable, { path: "/t/no.csv" });
  assert.ok(isError);
  assert.match(text, /^cannot read \/t\/no.csv: /);
});

test("a folder is no table", async () => {
  const { isError, text } = await new Host({ folders: { "/t": folder } }).call(summarizeTable, { path: "/t" });
  assert.deepEqual([isError, text], [true, "cannot read /t: it is a folder"]);
});

test("a sum that is too large has a mean", async () => {
  const cases: [string[], number][] = [
    [["1e308", "1.7e308"], 1.35e308],
    [["-1e308", "-1.7e308", "1"], -9e307],
    [["1.7e308", "1.7e308", "-1.7e308", "-1.7e308"], 0],
    [Array(3).fill("1.7976931348623157e308"), Number.MAX_VALUE],
  ];
  for (const [cells, mean] of cases) {
    const csv = ["key,a", ...cells.map((cell, i) => `${i},${cell}`)].join("\n");
    const { structured } = await new Host().call(summarizeTable, { csv });
    assert.partialDeepStrictEqual(structured, { columns: [{}, { mean }] });
  }
});

test("the key is asked for where no column is one", async () => {
  const csv = "a,b\n1,\n1,2\n";
  const host = new Host({ answers: { key_column: { key: "b" } } });
  const { structured } = await host.call(summarizeTable, { csv });
  assert.partialDeepStrictEqual(structured, { key: "b", duplicates: 1 });
  const [asked] = host.asked;
  assert.ok(asked?.question.tag === "form");
  assert.deepEqual(JSON.parse(asked.question.val.schema).properties.key.enum, ["a", "b"]);
  const declining = new Host({ answers: { key_column: "dismiss" } });
  assert.match((await declining.call(summarizeTable, { csv })).text, /no key/);
  await assert.rejects(new Host().call(summarizeTable, { csv }), Unsupported);
});

test("progress goes by the thousand, and cancellation is looked at there", async () => {
  const csv = ["a", ...Array.from({ length: 1500 }, (_, i) => i)].join("\n");
  const host = new Host();
  await host.call(summarizeTable, { csv });
  assert.deepEqual(host.progress, [
    { done: 1000, total: undefined, message: "1000 rows" },
    { done: 1500, total: 1500, message: "1500 rows" },
  ]);
  await assert.rejects(new Host({ cancelAfter: 1 }).call(summarizeTable, { csv }), Cancelled);
});
