/** The plugin {{name}}: one tool, which asks a question. */

import { plugin, tool } from "layby";
import * as z from "zod";

export const greet = tool(
  {
    name: "greet",
    description: "Greets somebody.",
    input: z.object({
      name: z.string().optional().describe("Their name. Where it is missing, the tool asks for it."),
    }),
    annotations: { readOnly: true },
  },
  ({ name }, call) => {
    call.progress(0, { total: 1, message: "thinking of a greeting" });
    call.check(); // ends here if the caller has cancelled
    if (name === undefined) {
      const answer = call.ask("who", "Whom shall I greet?", z.object({ name: z.string().describe("Your name") }));
      name = answer.action === "accept" ? answer.content.name : "whoever you are";
    }
    return `Hello, ${name}!`;
  },
);

export const tools = plugin(greet);
