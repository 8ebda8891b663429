import assert from "node:assert/strict";
import { test } from "node:test";

import { Host } from "layby/testing";

import { fnv1a, rounds } from "./trial.ts";

test("rounds tell what they drew and heard", async () => {
  assert.equal(fnv1a("foobar"), 0x85944171f73967e8n);
  const host = new Host({ answers: { round: { value: "ä" } } });
  const { isError, text } = await host.call(rounds, { rounds: 2 });
  assert.equal(isError, false, text);

  const drawn = host.asked.map(({ key, question }, i) => {
    assert.equal(key, "round");
    const message = question.tag === "form" ? question.val.message : "";
    assert.match(message, new RegExp(`^round ${i + 1}: [0-9a-f]{16}$`));
    return message.slice(-16);
  });
  assert.equal(new Set(drawn).size, 2);
  const lines = `1 ${drawn[0]} ä\n2 ${drawn[1]} ä`;
  assert.equal(text, `${lines}\ndigest ${fnv1a(lines).toString(16).padStart(16, "0")}`);
  assert.deepEqual(host.progress, [
    { done: 1, total: 2, message: undefined },
    { done: 2, total: 2, message: undefined },
  ]);
});

test("an answer that is none is kept as a word, and three rounds are the default", async () => {
  const { text } = await new Host({ answers: { round: "dismiss" } }).call(rounds, {});
  assert.match(text, /^1 [0-9a-f]{16} dismissed\n2 [0-9a-f]{16} dismissed\n3 [0-9a-f]{16} dismissed\ndigest [0-9a-f]{16}$/);
});
