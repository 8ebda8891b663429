import * as z from "zod";

type Json = Record<string, unknown>;

/** The JSON Schema (2020-12) of what a tool takes. */
export function ofInput(schema: z.ZodObject): string {
  return JSON.stringify(z.toJSONSchema(schema, { io: "input" }));
}

/** The JSON Schema (2020-12) of what a tool returns. */
export function ofOutput(schema: z.ZodObject): string {
  return JSON.stringify(z.toJSONSchema(schema, { io: "output" }));
}

/**
 * The schema of a form. MCP's forms have few keywords: what zod says besides (patterns, the bounds of safe integers)
 * is left out, and holds when the answer is parsed. Any other keyword stays, for the host to say what is wrong with it.
 */
export function ofForm(fields: z.ZodObject): string {
  const whole = z.toJSONSchema(fields, { io: "input" }) as Json;
  const properties = Object.entries((whole["properties"] ?? {}) as Record<string, Json>);
  return JSON.stringify({
    type: "object",
    properties: Object.fromEntries(properties.map(([name, field]) => [name, ofField(field)])),
    ...(whole["required"] === undefined ? {} : { required: whole["required"] }),
  });
}

function ofField(field: Json): Json {
  const { pattern: _, exclusiveMinimum: _above, exclusiveMaximum: _below, anyOf, ...rest } = field;
  if (rest["minimum"] === Number.MIN_SAFE_INTEGER) delete rest["minimum"];
  if (rest["maximum"] === Number.MAX_SAFE_INTEGER) delete rest["maximum"];
  if (!Array.isArray(anyOf)) return rest;
  // A union of literals, each perhaps with a title: a choice.
  const choices = (anyOf as Json[]).map((choice) => ({ const: choice["const"], title: choice["title"] ?? choice["const"] }));
  return choices.every((choice) => typeof choice.const === "string")
    ? { type: "string", ...rest, oneOf: choices }
    : { ...rest, anyOf };
}
