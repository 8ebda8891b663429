/** What a component imports. A function whose WIT result has an error throws an object with that error as `payload`. */

declare module "layby:plugin/call@1.0.0" {
  import type { Change, InputAnswer, InputRequest, LogLevel, QuestionKind } from "./wit.ts";
  export function reportProgress(progress: number, total: number | undefined, message: string | undefined): void;
  export function checkCancelled(): boolean;
  export function log(level: LogLevel, message: string): void;
  export function supports(kind: QuestionKind): boolean;
  export function changed(what: Change): void;
  export function requestInput(requests: InputRequest[]): InputAnswer[];
}

declare module "wasi:config/store@0.2.0-draft" {
  export function get(key: string): string | undefined;
  export function getAll(): [string, string][];
}

declare module "wasi:logging/logging@0.1.0-draft" {
  import type { LineLevel } from "./wit.ts";
  export function log(level: LineLevel, context: string, message: string): void;
}

declare module "wasi:filesystem/types@0.2.12" {
  export type DescriptorType =
    | "unknown"
    | "block-device"
    | "character-device"
    | "directory"
    | "fifo"
    | "symbolic-link"
    | "regular-file"
    | "socket";

  export interface DirectoryEntryStream {
    readDirectoryEntry(): { type: DescriptorType; name: string } | undefined;
  }

  export interface Descriptor {
    openAt(
      pathFlags: { symlinkFollow?: boolean },
      path: string,
      openFlags: { create?: boolean; directory?: boolean; exclusive?: boolean; truncate?: boolean },
      flags: { read?: boolean; write?: boolean; mutateDirectory?: boolean },
    ): Descriptor;
    getType(): DescriptorType;
    read(length: bigint, offset: bigint): [Uint8Array, boolean];
    write(buffer: Uint8Array, offset: bigint): bigint;
    readDirectory(): DirectoryEntryStream;
    createDirectoryAt(path: string): void;
    removeDirectoryAt(path: string): void;
    unlinkFileAt(path: string): void;
  }
}

declare module "wasi:filesystem/preopens@0.2.12" {
  import type { Descriptor } from "wasi:filesystem/types@0.2.12";
  export function getDirectories(): [Descriptor, string][];
}
