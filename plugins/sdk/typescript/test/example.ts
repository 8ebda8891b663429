import * as z from "zod";

import { ToolError, tool } from "../src/index.ts";

export const greet = tool(
  {
    name: "greet",
    title: "Greet",
    description: "Greets somebody.",
    input: z.object({ name: z.string(), times: z.int().default(2) }),
    annotations: { readOnly: true },
  },
  ({ name, times }) => Array.from({ length: times }, () => `Hello, ${name}!`).join(" "),
);

export const half = tool(
  {
    name: "half",
    description: "Half of a number.",
    input: z.strictObject({ of: z.number() }),
    output: z.object({ half: z.number(), rest: z.number().optional() }),
  },
  ({ of }) => {
    if (of < 0) throw new ToolError("it is negative");
    return { half: of / 2, ...(of % 2 !== 0 && { rest: of % 2 }) };
  },
);
