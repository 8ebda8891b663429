/** Files inside a component. Elsewhere `files.testing.ts` stands in, by `imports` of package.json. */

import { getDirectories } from "wasi:filesystem/preopens@0.2.12";
import type { Descriptor } from "wasi:filesystem/types@0.2.12";

import { payloadOf } from "./errors.ts";
import { FOLDER, FileError, type Kind, type Reader, locate } from "./files.shared.ts";

export type { Kind, Reader };

const FOLLOW = { symlinkFollow: true };
/** How componentize-js marks the function that gives a handle back. */
const DISPOSE: symbol = Symbol.dispose ?? Symbol.for("dispose");

export function open(path: string): Reader {
  const file = at(path, (folder, inside) => folder.openAt(FOLLOW, inside, {}, { read: true }));
  // A folder opens like a file, and tells only when it is read that it is none.
  if (at(path, () => file.getType()) === "directory") {
    close(file);
    throw new FileError(path, FOLDER);
  }
  let offset = 0n;
  return {
    read(size) {
      const [bytes] = at(path, () => file.read(BigInt(size), offset));
      offset += BigInt(bytes.length);
      return bytes;
    },
    close: () => close(file),
  };
}

export function write(path: string, bytes: Uint8Array): void {
  at(path, (folder, inside) => {
    const file = folder.openAt(FOLLOW, inside, { create: true, truncate: true }, { write: true });
    try {
      for (let offset = 0; offset < bytes.length; ) {
        offset += Number(file.write(bytes.subarray(offset, offset + 64 * 1024), BigInt(offset)));
      }
    } finally {
      close(file);
    }
  });
}

export function list(path: string): { name: string; kind: Kind }[] {
  return at(path, (folder, inside) => {
    const opened = folder.openAt(FOLLOW, inside, { directory: true }, { read: true });
    const entries = opened.readDirectory();
    const found: { name: string; kind: Kind }[] = [];
    for (let entry = entries.readDirectoryEntry(); entry !== undefined; entry = entries.readDirectoryEntry()) {
      const kind = entry.type === "regular-file" ? "file" : entry.type === "directory" ? "folder" : "other";
      found.push({ name: entry.name, kind });
    }
    close(entries);
    close(opened);
    return found;
  });
}

export function makeDir(path: string): void {
  at(path, (folder, inside) => folder.createDirectoryAt(inside));
}

export function remove(path: string): void {
  at(path, (folder, inside) => {
    try {
      folder.unlinkFileAt(inside);
    } catch (error) {
      if (payloadOf(error) !== "is-directory") throw error;
      folder.removeDirectoryAt(inside);
    }
  });
}

/** Does something in the granted folder of `path`; what goes wrong becomes a `FileError`. */
function at<T>(path: string, what: (folder: Descriptor, inside: string) => T): T {
  const [folder, inside] = locate(path, getDirectories());
  try {
    return what(folder, inside);
  } catch (error) {
    const code = payloadOf(error);
    throw typeof code === "string" ? new FileError(path, code === "no-entry" ? "there is no such file" : code) : error;
  }
}

function close(handle: object): void {
  (handle as Record<symbol, (() => void) | undefined>)[DISPOSE]?.();
}
