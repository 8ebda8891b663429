import assert from "node:assert/strict";
import { mock, test } from "node:test";

import * as z from "zod";

import { Cancelled, ProtocolError, Unsupported, plugin, result, text, tool } from "../src/index.ts";
import { Host } from "../src/testing.ts";
import { greet, half } from "./example.ts";

const nothing = z.object({});

/** A tool that does this, and no more. */
function doing(run: () => never | string | void | Promise<string>) {
  return tool({ name: "doing", description: "Does it.", input: nothing }, run);
}

test("a list has schemas of what a caller sends and gets", () => {
  const [first, second] = plugin(greet, half).listTools();
  assert.equal(first?.title, "Greet");
  assert.deepEqual(first?.annotations, { readOnly: true });
  const input = JSON.parse(first?.inputSchema ?? "");
  assert.equal(input.$schema, "https://json-schema.org/draft/2020-12/schema");
  assert.deepEqual(input.required, ["name"]);
  assert.equal(input.properties.times.default, 2);
  assert.equal(first?.outputSchema, undefined);
  assert.equal(JSON.parse(second?.inputSchema ?? "").additionalProperties, false);
  assert.deepEqual(JSON.parse(second?.outputSchema ?? "").required, ["half"]);
});

test("arguments are parsed, with their defaults", async () => {
  const { text, isError, structured } = await new Host().call(greet, { name: "Ada" });
  assert.equal(text, "Hello, Ada! Hello, Ada!");
  assert.equal(isError, false);
  assert.equal(structured, undefined);
});

test("an object is structured content and text", async () => {
  const { text, structured } = await new Host().call(half, { of: 3 });
  assert.deepEqual(structured, { half: 1.5, rest: 1 });
  assert.equal(text, '{"half":1.5,"rest":1}');
});

test("a result has content of its own beside it", async () => {
  const both = tool({ name: "both", description: "Both.", input: nothing }, () =>
    result({ content: [text("a"), text("b")], structured: { n: 1 }, meta: { m: 2 } }),
  );
  const outcome = await new Host().call(both, {});
  assert.equal(outcome.text, "a\nb");
  assert.deepEqual([outcome.structured, outcome.meta], [{ n: 1 }, { m: 2 }]);
});

test("content that is structured wrongly is an error", async () => {
  const errors = mock.method(console, "error", () => {});
  // @ts-expect-error it has no `half`
  const wrong = tool({ ...half.options }, () => ({ quarter: 1 }));
  const { isError, text } = await new Host().call(wrong, { of: 1 });
  errors.mock.restore();
  assert.ok(isError);
  assert.match(text, /does not fit the tool's output/);
});

test("a tool error is told, and leaves no stack", async () => {
  const errors = mock.method(console, "error", () => {});
  const { isError, text } = await new Host().call(half, { of: -1 });
  errors.mock.restore();
  assert.deepEqual([isError, text], [true, "it is negative"]);
  assert.equal(errors.mock.callCount(), 0);
});

test("any other exception is told by its message, and its stack is for standard error", async () => {
  const errors = mock.method(console, "error", () => {});
  const cases: [unknown, string][] = [
    [new TypeError("no such thing", { cause: new Error("the reason") }), "no such thing"],
    [new RangeError(), "RangeError"],
    ["a text", "a text"],
  ];
  for (const [thrown, expected] of cases) {
    const { isError, text } = await new Host().call(
      doing(() => {
        throw thrown;
      }),
      {},
    );
    assert.deepEqual([isError, text], [true, expected]);
  }
  errors.mock.restore();
  assert.match(String(errors.mock.calls[0]?.arguments[0]), /TypeError: no such thing\n[^]*caused by Error: the reason/);
  assert.equal(errors.mock.callCount(), 3);
});

test("a rejected promise is an exception, too", async () => {
  const errors = mock.method(console, "error", () => {});
  const { text } = await new Host().call(doing(() => Promise.reject(new Error("later"))), {});
  errors.mock.restore();
  assert.equal(text, "later");
});

test("the ends that are not results keep their case", async () => {
  const ends: [() => never, unknown][] = [
    [() => { throw new Cancelled(); }, Cancelled],
    [() => { throw new Unsupported(); }, Unsupported],
    [() => { throw new ProtocolError(-32602, "no", { a: 1 }); }, { code: -32602, message: "no", data: { a: 1 } }],
  ];
  for (const [end, expected] of ends) await assert.rejects(new Host().call(doing(end), {}), expected as Error);
});

test("arguments that only zod refuses are a tool error", async () => {
  const even = tool(
    { name: "even", description: "Even.", input: z.object({ n: z.int().refine((n) => n % 2 === 0, "not even") }) },
    ({ n }) => String(n),
  );
  const { isError, text } = await new Host().call(even, { n: 3 });
  assert.ok(isError);
  assert.match(text, /not even/);
});

test("a tool that is not there", async () => {
  const end = await plugin(greet).callTool("other", "{}").catch((error: unknown) => error);
  assert.match(JSON.stringify(end), /there is no tool/);
});
