import type * as z from "zod";

import * as host from "#host";

import { type Answer, type Answers, type Question, askAll, form } from "./ask.ts";
import { Cancelled } from "./errors.ts";
import type { Change, LogLevel, QuestionKind } from "./wit.ts";

/** The call that a tool is serving: what it can tell its host, and ask of it. */
export class Call {
  /** Says how far the call has come, of `total` where that is known. Values that do not increase are dropped. */
  progress(done: number, { total, message }: { total?: number; message?: string } = {}): void {
    host.reportProgress(done, total, message);
  }

  /** True once the caller has asked for cancellation. The instance is stopped by force when its grace period ends. */
  get cancelled(): boolean {
    return host.checkCancelled();
  }

  /** Throws `Cancelled` once the caller has asked for it: before every effect that others see, and in long loops. */
  check(): void {
    if (this.cancelled) throw new Cancelled();
  }

  /** A line for the operator's log, and for the caller's client where it asked for log messages. */
  log(level: LogLevel, message: string): void {
    host.log(level, message);
  }

  /** Can the caller's client answer this kind of question, and may this plugin ask it? */
  supports(kind: QuestionKind): boolean {
    return host.supports(kind);
  }

  /** Says that a list has changed, or the contents of the resource with a URI. */
  changed(what: "tools" | "prompts" | "resources" | { contents: string }): void {
    const change: Change = typeof what === "string" ? { tag: what } : { tag: "contents", val: what.contents };
    host.changed(change);
  }

  /**
   * Asks the caller, and waits for the answer, perhaps for days: a form by its key, message and fields, or any question.
   *
   * Throws `Unsupported`, `TimedOut`, `InvalidQuestion` or `Cancelled` where there is no answer at all.
   */
  ask<S extends z.ZodObject>(key: string, message: string, fields: S): Answer<z.output<S>>;
  ask<T>(question: Question<T>): Answer<T>;
  ask(of: string | Question<unknown>, message = "", fields?: z.ZodObject): Answer<unknown> {
    const question = typeof of !== "string" ? of : fields && form(of, message, fields);
    if (question === undefined) throw new TypeError("a form needs its fields, a z.object");
    return askAll([question])[0];
  }

  /** Puts several questions at once, and waits until each is answered. */
  askAll<const Q extends readonly Question<unknown>[]>(questions: Q): Answers<Q> {
    return askAll(questions);
  }
}
