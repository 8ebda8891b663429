import assert from "node:assert/strict";
import { test } from "node:test";

import { Cancelled } from "layby";
import { Host } from "layby/testing";

import { greet } from "./plugin.ts";

test("greets by name", async () => {
  const host = new Host();
  const { text } = await host.call(greet, { name: "Ada" });
  assert.equal(text, "Hello, Ada!");
  assert.equal(host.progress.length, 1);
  assert.equal(host.asked.length, 0);
});

test("asks for a missing name", async () => {
  const accepting = new Host({ answers: { who: { name: "Grace" } } });
  assert.equal((await accepting.call(greet, {})).text, "Hello, Grace!");
  const declining = new Host({ answers: { who: "decline" } });
  assert.equal((await declining.call(greet, {})).text, "Hello, whoever you are!");
});

test("stops when cancelled", async () => {
  await assert.rejects(new Host({ cancelAfter: 0 }).call(greet, {}), Cancelled);
});
