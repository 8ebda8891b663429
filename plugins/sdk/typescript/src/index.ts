/** Write Layby plugins in TypeScript: `tool` makes one from zod schemas and a function, `plugin` exports them. */

export {
  type Answer,
  type Answers,
  type Question,
  type Roots,
  type SamplingParams,
  type SamplingResult,
  form,
  roots,
  sampling,
  url,
} from "./ask.ts";
export { Call } from "./call.ts";
export { config, configAll, log } from "./config.ts";
export { Cancelled, InvalidQuestion, ProtocolError, TimedOut, ToolError, Unsupported } from "./errors.ts";
export { Result, audio, embed, image, link, other, result, text } from "./result.ts";
export { type Options, type Plugin, type Returned, type Tool, plugin, tool } from "./tool.ts";
export type { Content, LineLevel, LogLevel, QuestionKind, ToolAnnotations } from "./wit.ts";
