import * as z from "zod";

import { Call } from "./call.ts";
import { ToolError, toCase } from "./errors.ts";
import { type Result, toResult } from "./result.ts";
import { ofInput, ofOutput } from "./schema.ts";
import type { Content, Tool as Listed, ToolAnnotations, ToolResult } from "./wit.ts";

/** What a tool says of itself. */
export interface Options<I extends z.ZodObject, O extends z.ZodObject> {
  /** 1 to 128 of `A-Z a-z 0-9 _ - .`. */
  name: string;
  title?: string;
  /** What the model reads to decide whether to call it. */
  description: string;
  /** Its arguments. `.describe()` on each says what it is; `z.strictObject` refuses others. */
  input: I;
  /** Its structured content, where it has one. */
  output?: O;
  /** Hints for clients. */
  annotations?: ToolAnnotations;
  /** The MCP tool's `icons` and `_meta`. */
  extra?: { icons?: unknown[]; _meta?: Record<string, unknown> };
}

/** What a tool may return: a text, content, structured content, or a `result` of several. */
export type Returned<O extends z.ZodObject> = string | void | Content[] | z.input<O> | Result<z.input<O>>;

/** A tool, made by `tool`. */
export interface Tool<I extends z.ZodObject = z.ZodObject, O extends z.ZodObject = z.ZodObject> {
  readonly options: Options<I, O>;
  readonly run: (args: z.output<I>, call: Call) => Returned<O> | Promise<Returned<O>>;
}

/** Any structured content: of a tool that has no `output`. */
export type Anything = z.ZodObject<Record<never, never>, z.core.$loose>;

/**
 * A tool: what it says of itself, and the function that serves a call. An exception is a tool error with its message;
 * `ToolError` is one that was meant, and leaves no stack in the log.
 */
export function tool<I extends z.ZodObject, O extends z.ZodObject = Anything>(
  options: Options<I, O>,
  run: Tool<I, O>["run"],
): Tool<I, O> {
  return { options, run };
}

// A tool of any arguments: its function is only called with those that its own schema has parsed.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type AnyTool = Tool<any, any>;

/** What the host calls: the exports of the interface `tools`. */
export interface Plugin {
  listTools(): Listed[];
  callTool(name: string, args: string): Promise<ToolResult>;
}

/** A plugin of these tools: `export const tools = plugin(greet, …)`. */
export function plugin(...tools: AnyTool[]): Plugin {
  const byName = new Map(tools.map((one) => [one.options.name, one]));
  return {
    listTools: () => tools.map(listed),
    async callTool(name, args) {
      try {
        const found = byName.get(name);
        if (found === undefined) throw new ToolError(`there is no tool ${JSON.stringify(name)}`);
        return await serve(found, args);
      } catch (error) {
        // The error case of the WIT's result: an object with a payload, which is not an exception of the engine's own.
        throw { payload: toCase(error) };
      }
    },
  };
}

function listed({ options }: AnyTool): Listed {
  const { name, title, description, input, output, annotations = {}, extra } = options;
  return {
    name,
    title,
    description,
    inputSchema: ofInput(input),
    outputSchema: output && ofOutput(output),
    annotations,
    extra: extra && JSON.stringify(extra),
  };
}

async function serve({ options, run }: AnyTool, args: string): Promise<ToolResult> {
  const parsed = await (options.input as z.ZodObject).safeParseAsync(JSON.parse(args));
  if (!parsed.success) throw new ToolError(`the arguments do not fit:\n${z.prettifyError(parsed.error)}`);
  const returned: unknown = await run(parsed.data, new Call());
  return toResult(returned, (structured) => {
    if (options.output === undefined) return structured;
    const checked = (options.output as z.ZodObject).safeParse(structured);
    if (checked.success) return checked.data;
    throw new Error(`the structured content does not fit the tool's output: ${z.prettifyError(checked.error)}`);
  });
}
