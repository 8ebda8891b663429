import assert from "node:assert/strict";
import { test } from "node:test";

import * as z from "zod";

import { Cancelled, InvalidQuestion, Unsupported, config, configAll, form, log, roots, sampling, url } from "../src/index.ts";
import { ofForm } from "../src/schema.ts";
import { Host } from "../src/testing.ts";

const Name = z.object({ name: z.string() });

test("a question returns its answer", () => {
  const host = new Host({ answers: { who: { name: "Ada" }, sure: "decline", well: "dismiss" } });
  host.run((call) => {
    const who = call.ask("who", "Who?", Name);
    assert.deepEqual(who, { action: "accept", content: { name: "Ada" } });
    if (who.action === "accept") who.content.name satisfies string;
    assert.deepEqual(call.ask("sure", "Sure?", Name), { action: "decline" });
    assert.deepEqual(call.ask(form("well", "Well?", Name)), { action: "cancel" });
  });
  assert.deepEqual(host.asked.map(({ key }) => key), ["who", "sure", "well"]);
});

test("several at once keep their order and their types", () => {
  const answers = { a: { n: 3 }, b: "accept", c: { role: "assistant", model: "m", content: 1 }, d: { roots: [] } } as const;
  const host = new Host({ answers: { ...answers, d: { roots: [{ uri: "file:///a" }] } } });
  host.run((call) => {
    const [a, b, c, d] = call.askAll([
      form("a", "A?", z.object({ n: z.int() })),
      url("b", "B?", "https://example.org/"),
      sampling("c", { messages: [{ role: "user", content: { type: "text", text: "hi" } }], maxTokens: 9 }),
      roots("d"),
    ]);
    assert.ok(a.action === "accept" && a.content.n === 3);
    assert.deepEqual(b, { action: "accept", content: undefined });
    assert.ok(c.action === "accept" && c.content.model === "m");
    assert.ok(d.action === "accept" && d.content.roots[0]?.uri === "file:///a");
  });
  assert.deepEqual(host.asked.map(({ question }) => question.tag), ["form", "url", "sampling", "roots"]);
});

test("no answer, and one that does not fit", () => {
  new Host().run((call) => assert.throws(() => call.ask("who", "Who?", Name), Unsupported));
  const host = new Host({ answers: { who: { name: 5 } } });
  host.run((call) => assert.throws(() => call.ask("who", "Who?", Name), InvalidQuestion));
});

test("a form's schema has MCP's keywords alone", () => {
  const fields = z.object({
    name: z.string().min(1).describe("Your name"),
    mail: z.email(),
    page: z.url().optional(),
    born: z.iso.date().optional(),
    age: z.int().min(0).default(5),
    share: z.number().gt(0),
    sure: z.boolean(),
    one: z.enum(["a", "b"]),
    titled: z.union([z.literal("x").meta({ title: "An X" }), z.literal("y")]),
    many: z.array(z.enum(["p", "q"])).min(1),
  });
  const { required, properties, ...rest } = JSON.parse(ofForm(fields));
  assert.deepEqual(rest, { type: "object" });
  assert.deepEqual(required, ["name", "mail", "share", "sure", "one", "titled", "many"]);
  assert.deepEqual(properties, {
    name: { type: "string", minLength: 1, description: "Your name" },
    mail: { type: "string", format: "email" },
    page: { type: "string", format: "uri" },
    born: { type: "string", format: "date" },
    age: { type: "integer", minimum: 0, default: 5 },
    share: { type: "number" },
    sure: { type: "boolean" },
    one: { type: "string", enum: ["a", "b"] },
    titled: { type: "string", oneOf: [{ const: "x", title: "An X" }, { const: "y", title: "y" }] },
    many: { type: "array", minItems: 1, items: { type: "string", enum: ["p", "q"] } },
  });
});

test("progress, logs and changes reach the host", () => {
  const host = new Host();
  host.run((call) => {
    call.progress(1);
    call.progress(2, { total: 4, message: "half" });
    call.log("notice", "a line");
    log("warn", "a line for the operator", "part");
    call.changed("tools");
    call.changed({ contents: "a:b" });
    assert.equal(call.supports("form"), false);
  });
  assert.deepEqual(host.progress, [
    { done: 1, total: undefined, message: undefined },
    { done: 2, total: 4, message: "half" },
  ]);
  assert.deepEqual(host.logged, [{ level: "notice", message: "a line" }]);
  assert.deepEqual(host.lines, [{ level: "warn", context: "part", message: "a line for the operator" }]);
  assert.deepEqual(host.changes, [{ tag: "tools" }, { tag: "contents", val: "a:b" }]);
});

test("a cancelled call is seen at the check that was told", () => {
  new Host({ cancelAfter: 1 }).run((call) => {
    assert.equal(call.cancelled, false);
    assert.throws(() => call.check(), Cancelled);
  });
});

test("configuration is the policy's", () => {
  new Host({ config: { color: "blue" } }).run(() => {
    assert.equal(config("color"), "blue");
    assert.equal(config("size"), undefined);
    assert.deepEqual([...configAll()], [["color", "blue"]]);
  });
});

test("outside of a host nothing is there, and nothing fails", () => {
  assert.equal(config("color"), undefined);
  log("info", "nobody reads this");
});

test("hosts that run at once are apart", async () => {
  const hosts = ["a", "b"].map((key) => new Host({ config: { key } }));
  const seen = hosts.map((host) =>
    host.run(async () => {
      await new Promise((done) => setTimeout(done, 5));
      return config("key");
    }),
  );
  assert.deepEqual(await Promise.all(seen), ["a", "b"]);
});
