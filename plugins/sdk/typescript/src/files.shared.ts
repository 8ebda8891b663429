/** What files inside a component and outside have in common. */

/** Anything else is `other`. */
export type Kind = "file" | "folder" | "other";

/** A file that is open for reading. */
export interface Reader {
  /** At most `size` of the next bytes; none at the end. */
  read(size: number): Uint8Array;
  close(): void;
}

/** Why a folder cannot be read as a file. */
export const FOLDER = "it is a folder";

/** A file that cannot be read or written. */
export class FileError extends Error {
  override readonly name: string = "FileError";
  readonly path: string;
  /** Why, in words. */
  readonly reason: string;

  constructor(path: string, reason: string) {
    super(`${path}: ${reason}`);
    this.path = path;
    this.reason = reason;
  }
}

/** The granted folder that `path` lies in, the deepest of several, and the path in it. */
export function locate<T>(path: string, folders: readonly (readonly [T, string])[]): [folder: T, inside: string] {
  let best: [T, string] | undefined;
  let length = -1;
  for (const [folder, name] of folders) {
    const base = name.replace(/\/+$/, "");
    const fits = path === base || path.startsWith(`${base}/`);
    if (fits && base.length > length) {
      length = base.length;
      best = [folder, path.slice(base.length).replace(/^\/+/, "") || "."];
    }
  }
  if (best === undefined) throw new FileError(path, "it is in no granted folder");
  return best;
}
