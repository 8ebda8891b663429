import type { InputError, ToolErrorCase } from "./wit.ts";
import type { Content } from "./wit.ts";

/** The tool ran and failed, and the model is to read why. */
export class ToolError extends Error {
  override readonly name: string = "ToolError";
  /** What the model reads: the message, unless told otherwise. */
  readonly content: Content[];

  constructor(message: string, options: { content?: Content[]; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.content = options.content ?? [{ tag: "text", val: message }];
  }
}

/** The call cannot be served: a JSON-RPC error, which the model may never see. */
export class ProtocolError extends Error {
  override readonly name: string = "ProtocolError";
  /** Outside -32768 to -32000, or -32602 (invalid arguments) or -32603 (any other); the host makes -32603 of the rest. */
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** The caller asked for cancellation. Uncaught, it ends the call as cancelled. */
export class Cancelled extends Error {
  override readonly name: string = "Cancelled";
  constructor() {
    super("the call was cancelled");
  }
}

/** The caller's client cannot answer this kind of question, or policy forbids asking it. Uncaught, the host says so. */
export class Unsupported extends Error {
  override readonly name: string = "Unsupported";
  constructor() {
    super("the client cannot answer this kind of question");
  }
}

/** No answer came in time (only where the host is set to resume the call). */
export class TimedOut extends Error {
  override readonly name: string = "TimedOut";
  constructor() {
    super("no answer came in time");
  }
}

/** A question that no client could show, or an answer that does not fit it. */
export class InvalidQuestion extends Error {
  override readonly name: string = "InvalidQuestion";
  constructor(why: string) {
    super(`the question is malformed: ${why}`);
  }
}

/** The error that a host function has thrown, where its WIT result has one. */
export function payloadOf(error: unknown): unknown {
  return typeof error === "object" && error !== null && "payload" in error ? error.payload : undefined;
}

/** The exception for a question that has no answer. */
export function ofQuestion(error: unknown): unknown {
  const why = payloadOf(error) as InputError | undefined;
  switch (why?.tag) {
    case "unsupported":
      return new Unsupported();
    case "timed-out":
      return new TimedOut();
    case "invalid":
      return new InvalidQuestion(why.val);
    case "cancelled":
      return new Cancelled();
    default:
      return error;
  }
}

/** What the host is told of an exception that ended a tool. */
export function toCase(error: unknown): ToolErrorCase {
  if (error instanceof Cancelled) return { tag: "cancelled" };
  if (error instanceof Unsupported) return { tag: "unsupported" };
  if (error instanceof ProtocolError) {
    const { code, message, data } = error;
    return { tag: "protocol", val: { code, message, data: data === undefined ? undefined : JSON.stringify(data) } };
  }
  if (error instanceof ToolError) return { tag: "failed", val: { content: error.content } };
  // Nobody meant this one: its stack is for the operator, who reads standard error. The caller sees the message alone.
  console.error(traceOf(error));
  return { tag: "failed", val: { content: [{ tag: "text", val: messageOf(error) }] } };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

function traceOf(error: unknown): string {
  if (!(error instanceof Error)) return `uncaught: ${String(error)}`;
  const stack = (error.stack ?? "").trimEnd();
  // SpiderMonkey's stacks have no message, V8's begin with it.
  const trace = stack.startsWith(String(error)) ? stack : `${String(error)}\n${stack}`;
  return error.cause === undefined ? trace : `${trace}\ncaused by ${traceOf(error.cause)}`;
}
