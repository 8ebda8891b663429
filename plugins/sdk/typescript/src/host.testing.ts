/** The host's functions outside a component: those of the `Host` whose `run` is on the way, else of one that has nothing. */

import { AsyncLocalStorage } from "node:async_hooks";

import type { Change, InputAnswer, InputRequest, LineLevel, LogLevel, QuestionKind } from "./wit.ts";

export interface StandIn {
  changed(what: Change): void;
  checkCancelled(): boolean;
  log(level: LogLevel, message: string): void;
  reportProgress(progress: number, total: number | undefined, message: string | undefined): void;
  requestInput(requests: InputRequest[]): InputAnswer[];
  supports(kind: QuestionKind): boolean;
  configValue(key: string): string | undefined;
  configValues(): [string, string][];
  logLine(level: LineLevel, context: string, message: string): void;
  /** Where the granted folder `guest` lies outside the sandbox. */
  folders(): [guest: string, host: string][];
}

/** The stand-in of the code that is running. */
export const current: AsyncLocalStorage<StandIn> = new AsyncLocalStorage();

const host = () => current.getStore();

export const changed = (what: Change): void => host()?.changed(what);
export const checkCancelled = (): boolean => host()?.checkCancelled() ?? false;
export const log = (level: LogLevel, message: string): void => host()?.log(level, message);
export const reportProgress: StandIn["reportProgress"] = (progress, total, message) =>
  host()?.reportProgress(progress, total, message);
export const supports = (kind: QuestionKind): boolean => host()?.supports(kind) ?? false;
export const configValue = (key: string): string | undefined => host()?.configValue(key);
export const configValues = (): [string, string][] => host()?.configValues() ?? [];
export const logLine: StandIn["logLine"] = (level, context, message) => host()?.logLine(level, context, message);

export function requestInput(requests: InputRequest[]): InputAnswer[] {
  const standIn = host();
  if (standIn === undefined) {
    throw Object.assign(new Error("no host"), { payload: { tag: "unsupported" } });
  }
  return standIn.requestInput(requests);
}
