import { configValue, configValues, logLine } from "#host";

import type { LineLevel } from "./wit.ts";

/** The value that the operator's policy has for `key` under `grants.config`. */
export function config(key: string): string | undefined {
  return configValue(key);
}

/** All values of the policy. */
export function configAll(): Map<string, string> {
  return new Map(configValues());
}

/** A line for the operator's log alone, by `wasi:logging`; `call.log` also reaches the caller's client. */
export function log(level: LineLevel, message: string, context = ""): void {
  logLine(level, context, message);
}
