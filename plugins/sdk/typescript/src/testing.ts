/** A stand-in for the host, so that tools can be tested with `node --test` or any other runner in Node. */

import type * as z from "zod";

import { Call } from "./call.ts";
import { Cancelled, ProtocolError, Unsupported, payloadOf } from "./errors.ts";
import { current } from "./host.testing.ts";
import { type AnyTool, type Tool, plugin } from "./tool.ts";
import type { Change, Content, InputAnswer, InputRequest, LogLevel, ToolErrorCase, ToolResult } from "./wit.ts";

/** What a test says of its host. */
export interface Settings {
  /** By question key, as in the file of `layby call --answers`: content, "accept", "decline" or "dismiss". */
  answers?: Record<string, Record<string, unknown> | "accept" | "decline" | "dismiss">;
  /** Cancels the call after so many checks that said no. */
  cancelAfter?: number;
  /** `grants.config`. */
  config?: Record<string, string>;
  /** `grants.files`: a guest path, and the folder that it stands for. */
  folders?: Record<string, string>;
}

/** How a call ended. */
export interface Outcome {
  isError: boolean;
  /** The texts of the content, a line each. */
  text: string;
  content: Content[];
  structured: unknown;
  meta: unknown;
}

/** A host that answers as it is told, and remembers what a tool said. A question without an answer is unsupported. */
export class Host {
  readonly asked: InputRequest[] = [];
  readonly progress: { done: number; total: number | undefined; message: string | undefined }[] = [];
  /** What `call.log` said. */
  readonly logged: { level: LogLevel; message: string }[] = [];
  /** What the kit's `log` said. */
  readonly lines: { level: string; context: string; message: string }[] = [];
  readonly changes: Change[] = [];

  readonly #settings: Settings;
  #checks = 0;

  constructor(settings: Settings = {}) {
    this.#settings = settings;
  }

  /** Calls a tool as the host does. Throws `Cancelled`, `Unsupported` or `ProtocolError` where it ends so. */
  async call<I extends z.ZodObject, O extends z.ZodObject>(tool: Tool<I, O>, args: z.input<I>): Promise<Outcome> {
    const { callTool } = plugin(tool as AnyTool);
    try {
      return outcome(await this.run(() => callTool(tool.options.name, JSON.stringify(args))), false);
    } catch (error) {
      return ofError(error);
    }
  }

  /** Runs `body` with this host behind its call. */
  run<T>(body: (call: Call) => T): T {
    const settings = this.#settings;
    return current.run(
      {
        changed: (what) => void this.changes.push(what),
        checkCancelled: () => settings.cancelAfter !== undefined && this.#checks++ >= settings.cancelAfter,
        log: (level, message) => void this.logged.push({ level, message }),
        reportProgress: (done, total, message) => void this.progress.push({ done, total, message }),
        supports: () => settings.answers !== undefined,
        requestInput: (requests) => this.#answers(requests),
        configValue: (key) => settings.config?.[key],
        configValues: () => Object.entries(settings.config ?? {}),
        logLine: (level, context, message) => void this.lines.push({ level, context, message }),
        folders: () => Object.entries(settings.folders ?? {}),
      },
      () => body(new Call()),
    );
  }

  #answers(requests: InputRequest[]): InputAnswer[] {
    this.asked.push(...requests);
    return requests.map(({ key }) => {
      const answer = this.#settings.answers?.[key];
      if (answer === undefined) throw Object.assign(new Error(`no answer to ${key}`), { payload: { tag: "unsupported" } });
      if (answer === "decline") return { tag: "declined" };
      if (answer === "dismiss") return { tag: "dismissed" };
      return { tag: "accepted", val: JSON.stringify(answer === "accept" ? {} : answer) };
    });
  }
}

function outcome({ content, structuredContent, meta }: ToolResult, isError: boolean): Outcome {
  const texts = content.flatMap((one) => (one.tag === "text" ? [one.val] : []));
  const parse = (json: string | undefined): unknown => (json === undefined ? undefined : JSON.parse(json));
  return { isError, text: texts.join("\n"), content, structured: parse(structuredContent), meta: parse(meta) };
}

function ofError(error: unknown): Outcome {
  const why = payloadOf(error) as ToolErrorCase | undefined;
  switch (why?.tag) {
    case "failed":
      return outcome(why.val, true);
    case "protocol":
      throw new ProtocolError(why.val.code, why.val.message, why.val.data && JSON.parse(why.val.data));
    case "cancelled":
      throw new Cancelled();
    case "unsupported":
      throw new Unsupported();
    case undefined:
      throw error;
  }
}
