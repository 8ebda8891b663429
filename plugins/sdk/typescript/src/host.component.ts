/** The host's functions inside a component. Elsewhere `host.testing.ts` stands in, by `imports` of package.json. */

export {
  changed,
  checkCancelled,
  log,
  reportProgress,
  requestInput,
  supports,
} from "layby:plugin/call@1.0.0";
export { get as configValue, getAll as configValues } from "wasi:config/store@0.2.0-draft";
export { log as logLine } from "wasi:logging/logging@0.1.0-draft";
