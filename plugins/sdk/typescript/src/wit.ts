/** The values of `wit/plugin.wit` as componentize-js has them: variants are tagged, options may be undefined. */

export interface Tool {
  name: string;
  title?: string | undefined;
  description: string;
  inputSchema: string;
  outputSchema?: string | undefined;
  annotations: ToolAnnotations;
  extra?: string | undefined;
}

/** Hints for clients. The host grants nothing by them. */
export interface ToolAnnotations {
  readOnly?: boolean | undefined;
  destructive?: boolean | undefined;
  idempotent?: boolean | undefined;
  openWorld?: boolean | undefined;
}

export type Content =
  | { tag: "text"; val: string }
  | { tag: "image"; val: Media }
  | { tag: "audio"; val: Media }
  | { tag: "resource-link"; val: ResourceLink }
  | { tag: "embedded"; val: EmbeddedResource }
  | { tag: "other"; val: string };

export interface Media {
  data: Uint8Array;
  mimeType: string;
}

export interface ResourceLink {
  uri: string;
  name: string;
  title?: string | undefined;
  description?: string | undefined;
  mimeType?: string | undefined;
}

export interface EmbeddedResource {
  uri: string;
  mimeType?: string | undefined;
  contents: { tag: "text"; val: string } | { tag: "blob"; val: Uint8Array };
}

export interface ToolResult {
  content: Content[];
  structuredContent?: string | undefined;
  meta?: string | undefined;
}

export type ToolErrorCase =
  | { tag: "failed"; val: ToolResult }
  | { tag: "protocol"; val: { code: number; message: string; data?: string | undefined } }
  | { tag: "unsupported" }
  | { tag: "cancelled" };

export type LogLevel = "debug" | "info" | "notice" | "warning" | "error" | "critical";

export type QuestionKind = "form" | "url" | "sampling" | "roots";

export type Change =
  | { tag: "tools" }
  | { tag: "prompts" }
  | { tag: "resources" }
  | { tag: "contents"; val: string };

export interface InputRequest {
  key: string;
  question: QuestionCase;
}

export type QuestionCase =
  | { tag: "form"; val: { message: string; schema: string } }
  | { tag: "url"; val: { message: string; url: string } }
  | { tag: "sampling"; val: string }
  | { tag: "roots" };

export type InputAnswer = { tag: "accepted"; val: string } | { tag: "declined" } | { tag: "dismissed" };

export type InputError =
  | { tag: "unsupported" }
  | { tag: "timed-out" }
  | { tag: "invalid"; val: string }
  | { tag: "cancelled" };

export type LineLevel = "trace" | "debug" | "info" | "warn" | "error" | "critical";
