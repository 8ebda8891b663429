import type { Content, ResourceLink, ToolResult } from "./wit.ts";

/** The parts of a result; each may be left out. */
export interface Parts<T = object> {
  /** What people and models read. */
  content?: string | readonly Content[];
  /** The structured content. */
  structured?: T;
  /** The result's `_meta`. */
  meta?: Record<string, unknown>;
}

/** A result that says more than a text or an object alone. */
export class Result<T = object> {
  readonly parts: Parts<T>;
  constructor(parts: Parts<T>) {
    this.parts = parts;
  }
}

/** A result with content of its own beside the structured content: `result({ content: "3 rows", structured: { rows: 3 } })`. */
export function result<T = object>(parts: Parts<T>): Result<T> {
  return new Result(parts);
}

export function text(value: string): Content {
  return { tag: "text", val: value };
}

export function image(data: Uint8Array, mimeType: string): Content {
  return { tag: "image", val: { data, mimeType } };
}

export function audio(data: Uint8Array, mimeType: string): Content {
  return { tag: "audio", val: { data, mimeType } };
}

export function link(resource: ResourceLink): Content {
  return { tag: "resource-link", val: resource };
}

/** A resource with its contents, a text or bytes. */
export function embed(uri: string, contents: string | Uint8Array, mimeType?: string): Content {
  const inside =
    typeof contents === "string" ? { tag: "text" as const, val: contents } : { tag: "blob" as const, val: contents };
  return { tag: "embedded", val: { uri, mimeType, contents: inside } };
}

/** Any content block of MCP, as it is. */
export function other(block: Record<string, unknown>): Content {
  return { tag: "other", val: JSON.stringify(block) };
}

/** What a tool returned, as the host takes it; `structured` is checked by `check` first. */
export function toResult(returned: unknown, check: (structured: object) => object): ToolResult {
  if (returned === undefined || returned === null) return { content: [] };
  if (returned instanceof Result) return ofParts(returned.parts as Parts, check);
  if (typeof returned === "object" && !Array.isArray(returned)) return ofParts({ structured: returned }, check);
  if (Array.isArray(returned)) return { content: returned as Content[] };
  return { content: [text(String(returned))] };
}

function ofParts({ content, structured, meta }: Parts, check: (structured: object) => object): ToolResult {
  const json = structured === undefined ? undefined : JSON.stringify(check(structured));
  const shown = content ?? json;
  return {
    content: shown === undefined ? [] : typeof shown === "string" ? [text(shown)] : [...shown],
    structuredContent: json,
    meta: meta === undefined ? undefined : JSON.stringify(meta),
  };
}
