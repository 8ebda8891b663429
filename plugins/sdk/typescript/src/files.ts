/**
 * Files of the granted folders, by `wasi:filesystem`: `/tables/people.csv` is `people.csv` in the folder that the policy
 * file calls `/tables`. In tests they are those of the `Host`'s `folders`.
 */

import * as files from "#files";

export { FileError, type Kind } from "./files.shared.ts";

/** Bytes of one read, where not told otherwise. */
const CHUNK = 64 * 1024;

/** The bytes of a file, piece by piece: a large one in little memory. Throws `FileError`, also when it is opened. */
export function readChunks(path: string, size: number = CHUNK): Generator<Uint8Array, void, undefined> {
  // Opened here, for whoever calls this to see at once that there is no such file.
  const file = files.open(path);
  return chunks(file, size);
}

function* chunks(file: files.Reader, size: number): Generator<Uint8Array, void, undefined> {
  try {
    for (;;) {
      const bytes = file.read(size);
      if (bytes.length === 0) return;
      yield bytes;
    }
  } finally {
    file.close();
  }
}

/** The whole file. */
export function readFile(path: string): Uint8Array {
  const all = [...readChunks(path)];
  const whole = new Uint8Array(all.reduce((length, bytes) => length + bytes.length, 0));
  let at = 0;
  for (const bytes of all) {
    whole.set(bytes, at);
    at += bytes.length;
  }
  return whole;
}

/** The whole file, which is UTF-8. */
export function readText(path: string): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(readFile(path));
}

/** Makes the file, or writes over it. Its folder must be granted with `write = true`. */
export function writeFile(path: string, contents: string | Uint8Array): void {
  files.write(path, typeof contents === "string" ? new TextEncoder().encode(contents) : contents);
}

/** What is in a folder, sorted by name. */
export function readDir(path: string): { name: string; kind: files.Kind }[] {
  return files.list(path).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Makes a folder. */
export function makeDir(path: string): void {
  files.makeDir(path);
}

/** Removes a file, or an empty folder. */
export function remove(path: string): void {
  files.remove(path);
}
