/** What a kit must pass on: a guest for the tests. */

import { type Answer, ToolError, config, form, log, plugin, tool } from "layby";
import * as z from "zod";

const echo = tool(
  { name: "echo", description: "Answers with the text it was given.", input: z.strictObject({ text: z.string() }) },
  ({ text }) => text,
);

const fail = tool(
  { name: "fail", description: "Fails with the message it was given.", input: z.strictObject({ message: z.string() }) },
  ({ message }) => {
    throw new Error(message);
  },
);

const trap = tool(
  { name: "trap", description: "Ends its instance.", input: z.strictObject({}) },
  // Nothing is left that could settle this promise, and the engine gives up.
  () => new Promise<string>(() => {}),
);

const spin = tool({ name: "spin", description: "Never ends.", input: z.strictObject({}) }, () => {
  for (;;);
});

const sleep = (milliseconds: number) => new Promise((done) => setTimeout(done, milliseconds));

const wait = tool(
  { name: "wait", description: "Waits until it is cancelled.", input: z.strictObject({}) },
  async (_, call) => {
    for (let done = 1; ; done++) {
      call.progress(done);
      if (call.cancelled) call.log("notice", "stopped on request");
      call.check();
      await sleep(20);
    }
  },
);

const Value = z.object({ value: z.string() });

function told(answer: Answer<z.output<typeof Value>>): string {
  switch (answer.action) {
    case "accept":
      return answer.content.value;
    case "decline":
      return "declined";
    case "cancel":
      return "dismissed";
  }
}

const ask = tool({ name: "ask", description: "Asks two questions at once.", input: z.strictObject({}) }, (_, call) => {
  const [first, second] = call.askAll([form("first", "The first?", Value), form("second", "The second?", Value)]);
  return `first: ${told(first)}, second: ${told(second)}`;
});

const configured = tool(
  { name: "config", description: "Answers with a value of the policy.", input: z.strictObject({ key: z.string() }) },
  ({ key }) => config(key) ?? "no value",
);

const logs = tool({ name: "log", description: "Logs in four ways.", input: z.strictObject({}) }, (_, call) => {
  log("warn", "a line by wasi:logging", "trial");
  call.log("notice", "a line by the call");
  console.error("a line on standard error");
  console.log("a line on standard output");
  return "logged";
});

/** What a round leaves in memory. */
interface Round {
  number: number;
  drawn: bigint;
  wall: number;
  begun: number;
  answer: string;
}

const hex = (value: bigint) => value.toString(16).padStart(16, "0");

/** FNV-1a of 64 bits. */
export function fnv1a(text: string): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash;
}

export const rounds = tool(
  {
    name: "rounds",
    description: "Draws a number, asks about it and sleeps, round after round, and tells all at the end.",
    input: z.strictObject({
      rounds: z.int().min(1).max(100).default(3).describe("How many rounds."),
      sleep_ms: z.int().min(0).max(3_600_000).default(0).describe("How long to sleep after each answer, in milliseconds."),
    }),
  },
  async ({ rounds, sleep_ms }, call) => {
    const kept: Round[] = [];
    for (let number = 1; number <= rounds; number++) {
      const [drawn = 0n] = crypto.getRandomValues(new BigUint64Array(1));
      const [wall, begun] = [Date.now(), performance.now()];
      call.progress(number, { total: rounds });
      console.log(`round ${number}`);
      const answer = told(call.ask("round", `round ${number}: ${hex(drawn)}`, Value));
      kept.push({ number, drawn, wall, begun, answer });

      const asleep = performance.now();
      await sleep(sleep_ms);
      const awake = performance.now();
      if (kept.some((round) => awake < round.begun)) throw new ToolError("the clock went back");
      if (awake - asleep < sleep_ms) throw new ToolError("slept too little");
    }
    const text = kept.map(({ number, drawn, answer }) => `${number} ${hex(drawn)} ${answer}`).join("\n");
    return `${text}\ndigest ${hex(fnv1a(text))}`;
  },
);

export const tools = plugin(echo, fail, trap, spin, wait, ask, configured, logs, rounds);
