/** Files outside a component: those of the `Host`'s folders, by Node. */

import * as fs from "node:fs";
import { join } from "node:path";

import { FOLDER, FileError, type Kind, type Reader, locate } from "./files.shared.ts";
import { current } from "./host.testing.ts";

export type { Kind, Reader };

export function open(path: string): Reader {
  const file = at(path, (real) => fs.openSync(real, "r"));
  if (fs.fstatSync(file).isDirectory()) {
    fs.closeSync(file);
    throw new FileError(path, FOLDER);
  }
  return {
    read(size) {
      const bytes = new Uint8Array(size);
      return bytes.subarray(0, at(path, () => fs.readSync(file, bytes)));
    },
    close: () => fs.closeSync(file),
  };
}

export function write(path: string, bytes: Uint8Array): void {
  at(path, (real) => fs.writeFileSync(real, bytes));
}

export function list(path: string): { name: string; kind: Kind }[] {
  const entries = at(path, (real) => fs.readdirSync(real, { withFileTypes: true }));
  const kind = (entry: fs.Dirent): Kind => (entry.isFile() ? "file" : entry.isDirectory() ? "folder" : "other");
  return entries.map((entry) => ({ name: entry.name, kind: kind(entry) }));
}

export function makeDir(path: string): void {
  at(path, (real) => fs.mkdirSync(real));
}

export function remove(path: string): void {
  at(path, (real) => (fs.statSync(real).isDirectory() ? fs.rmdirSync(real) : fs.unlinkSync(real)));
}

function at<T>(path: string, what: (real: string) => T): T {
  const folders = current.getStore()?.folders() ?? [];
  const [folder, inside] = locate(path, folders.map(([guest, host]) => [host, guest] as const));
  try {
    return what(join(folder, inside));
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === undefined) throw error;
    throw new FileError(path, code === "ENOENT" ? "there is no such file" : code);
  }
}
