import assert from "node:assert/strict";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { FileError, makeDir, readChunks, readDir, readText, remove, writeFile } from "../src/files.ts";
import { locate } from "../src/files.shared.ts";
import { Host } from "../src/testing.ts";

test("files of a granted folder", () => {
  const real = mkdtempSync(join(tmpdir(), "layby-"));
  new Host({ folders: { "/data": real } }).run(() => {
    writeFile("/data/a.txt", "abc€");
    makeDir("/data/in");
    assert.equal(readText("/data/a.txt"), "abc€");
    assert.deepEqual([...readChunks("/data/a.txt", 4)].map((bytes) => bytes.length), [4, 2]);
    assert.deepEqual(readDir("/data"), [
      { name: "a.txt", kind: "file" },
      { name: "in", kind: "folder" },
    ]);
    assert.equal(readFileSync(join(real, "a.txt"), "utf8"), "abc€");
    assert.throws(() => readChunks("/data/in"), new FileError("/data/in", "it is a folder"));
    remove("/data/in");
    remove("/data/a.txt");
    assert.deepEqual(readDir("/data"), []);
    assert.throws(() => readChunks("/data/a.txt"), new FileError("/data/a.txt", "there is no such file"));
  });
});

test("a path lies in the deepest granted folder, or in none", () => {
  const folders = [
    ["root", "/a"],
    ["deep", "/a/b/"],
  ] as const;
  assert.deepEqual(locate("/a/b/c", folders), ["deep", "c"]);
  assert.deepEqual(locate("/a/bc", folders), ["root", "bc"]);
  assert.deepEqual(locate("/a/b", folders), ["deep", "."]);
  assert.throws(() => locate("/ab", folders), FileError);
});
