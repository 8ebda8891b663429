import * as z from "zod";

import { requestInput } from "#host";

import { InvalidQuestion, ofQuestion } from "./errors.ts";
import { ofForm } from "./schema.ts";
import type { InputAnswer, InputRequest } from "./wit.ts";

/** What became of a question, by MCP's own names: `cancel` is a question that was closed without yes or no. */
export type Answer<T> =
  | { readonly action: "accept"; readonly content: T }
  | { readonly action: "decline" }
  | { readonly action: "cancel" };

/** One question; made by `form`, `url`, `sampling` or `roots`. */
export interface Question<T> {
  /** The question as the host takes it. */
  readonly request: InputRequest;
  /** Reads an accepted answer. */
  readonly read: (answer: unknown) => T;
}

/** The answer that each question of a list has. */
export type Answers<Q extends readonly Question<unknown>[]> = {
  -readonly [K in keyof Q]: Q[K] extends Question<infer T> ? Answer<T> : never;
};

/** What MCP's `sampling/createMessage` takes; the specification has more members than these. */
export interface SamplingParams {
  messages: { role: "user" | "assistant"; content: unknown }[];
  maxTokens: number;
  systemPrompt?: string;
  temperature?: number;
  stopSequences?: string[];
  [more: string]: unknown;
}

/** What the client's model said. */
export interface SamplingResult {
  role: "user" | "assistant";
  content: unknown;
  model: string;
  stopReason?: string;
  [more: string]: unknown;
}

export interface Roots {
  roots: { uri: string; name?: string }[];
}

/**
 * A form with these fields: strings, numbers, booleans, enums, and lists of enums; `.optional()`, `.default()` and
 * `.describe()` are shown to whoever answers. `key` names the question to the client.
 */
export function form<S extends z.ZodObject>(key: string, message: string, fields: S): Question<z.output<S>> {
  return {
    request: { key, question: { tag: "form", val: { message, schema: ofForm(fields) } } },
    read(answer) {
      const parsed = fields.safeParse(answer);
      if (parsed.success) return parsed.data;
      throw new InvalidQuestion(`the answer to ${JSON.stringify(key)} does not fit: ${z.prettifyError(parsed.error)}`);
    },
  };
}

/** A page that the caller is asked to open. Accepting means agreeing to open it, no more. */
export function url(key: string, message: string, address: string): Question<undefined> {
  return { request: { key, question: { tag: "url", val: { message, url: address } } }, read: () => undefined };
}

/** Asks the client's model, by MCP's `sampling/createMessage`. */
export function sampling(key: string, params: SamplingParams): Question<SamplingResult> {
  return {
    request: { key, question: { tag: "sampling", val: JSON.stringify(params) } },
    read: (answer) => answer as SamplingResult,
  };
}

/** Asks the client for its roots, by MCP's `roots/list`. */
export function roots(key: string): Question<Roots> {
  return { request: { key, question: { tag: "roots" } }, read: (answer) => answer as Roots };
}

/** Puts all questions at once, and returns when each is answered, perhaps days later. */
export function askAll<const Q extends readonly Question<unknown>[]>(questions: Q): Answers<Q> {
  const answers = put(questions.map((question) => question.request));
  return questions.map((question, i) => read(question, answers[i])) as Answers<Q>;
}

function put(requests: InputRequest[]): InputAnswer[] {
  try {
    return requestInput(requests);
  } catch (error) {
    throw ofQuestion(error);
  }
}

function read<T>(question: Question<T>, answer: InputAnswer | undefined): Answer<T> {
  switch (answer?.tag) {
    case "accepted":
      return { action: "accept", content: question.read(JSON.parse(answer.val)) };
    case "declined":
      return { action: "decline" };
    case "dismissed":
      return { action: "cancel" };
    case undefined:
      throw new InvalidQuestion("an answer is missing");
  }
}
