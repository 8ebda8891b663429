// What all of npm's client programs share: a plan of steps in, JSON lines out.
//
//   node PROGRAM TARGET '{"steps": [STEP, …], …}'
//
// TARGET is a URL, or a JSON array with the command line of a server over stdio. Members of the plan:
//   "answers": {KEY: ANSWER}   for questions: KEY is the question's key, a property of its form, or "*"
//   "headers": {…}             more HTTP headers for every request
//   "era": "legacy"            where the SDK can speak both
// An ANSWER is the form's content, "accept", "decline" or "dismiss", or MCP's result (`{"action": …}`).
// A STEP is one of
//   {"call": TOOL, "arguments": {…}, "cancelAfterMs": 300}
//   {"prompt": NAME, "arguments": {…}}      {"read": URI}      {"complete": REF, "argument": {…}}
//   {"list": "tools" | "prompts" | "resources" | "templates"}
//   {"listen": ["tools", "prompts", "resources"]}          until the next step with {"expect": …} has seen it
//   {"expect": METHOD}          waits for a notification that came since the last such step
//   {"logLevel": LEVEL}         asks for log messages
// Each gives one line {"event": "outcome", "step": N, "status": "completed" | "failed" | "cancelled", …};
// questions, answers, progress, log messages and notifications are lines of their own before it.
// Exits with 0 once all steps have been taken, whatever their outcomes, and with 1 where the client failed.

export const clientInfo = { name: "layby-test-client", version: "1.0.0" };

/** How long a step may wait for a notification. */
const EXPECT_MS = 10_000;

export const print = (event, rest = {}) => process.stdout.write(`${JSON.stringify({ event, ...rest })}\n`);

/** The way to TARGET, made with an SDK's transports. */
export function transport(target, plan, Stdio, Http, authProvider) {
  if (Array.isArray(target)) return new Stdio({ command: target[0], args: target.slice(1), stderr: "inherit" });
  return new Http(new URL(target), { requestInit: { headers: plan.headers ?? {} }, authProvider });
}

/** MCP's elicitation result from an answer of the plan. */
export function elicited(answer) {
  if (answer === "accept") return { action: "accept" };
  if (answer === "decline") return { action: "decline" };
  if (answer === "dismiss") return { action: "cancel" };
  if (typeof answer?.action === "string") return answer;
  return { action: "accept", content: answer };
}

/** Answers one question from the plan; SDKs do not tell its key, so a property of its form names it too. */
export function answerQuestion(plan, method, params, key) {
  print("question", { method, key, params });
  const names = [key, ...Object.keys(params?.requestedSchema?.properties ?? {}), "*"];
  const name = names.find((name) => name !== undefined && plan.answers?.[name] !== undefined);
  if (name === undefined) throw new Error(`the plan has no answer for ${JSON.stringify(names)}`);
  print("answer", { key: name });
  return plan.answers[name];
}

/** Fixed answers to the questions that only a model or an application can answer. */
export const sampled = {
  role: "assistant",
  model: "test-model",
  content: { type: "text", text: "Paris" },
  stopReason: "endTurn",
};
export const roots = { roots: [{ uri: "file:///test/root", name: "Test Root" }] };

/** Notifications that have come, for the steps that expect one. */
export class Inbox {
  #seen = [];
  #waiting = [];

  put(method, params) {
    print("notification", { method, params });
    const index = this.#waiting.findIndex((w) => w.method === method);
    if (index < 0) this.#seen.push(method);
    else this.#waiting.splice(index, 1)[0].resolve();
  }

  expect(method) {
    const index = this.#seen.indexOf(method);
    if (index >= 0) {
      this.#seen.splice(0, index + 1);
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ method, resolve });
      setTimeout(() => reject(new Error(`no ${method} within ${EXPECT_MS} ms`)), EXPECT_MS).unref();
    });
  }
}

async function call(client, step) {
  const abort = new AbortController();
  if (step.cancelAfterMs !== undefined) setTimeout(() => abort.abort("the plan"), step.cancelAfterMs);
  const options = { signal: abort.signal, onprogress: (progress) => print("progress", progress) };
  const params = { name: step.call, arguments: step.arguments ?? {} };
  try {
    return { status: "completed", result: await client.callTool(params, options) };
  } catch (error) {
    if (abort.signal.aborted) return { status: "cancelled" };
    throw error;
  }
}

async function perform(client, step, inbox) {
  const { arguments: args = {}, argument } = step;
  const completed = (result) => ({ status: "completed", result });
  if (step.call !== undefined) return await call(client, step);
  if (step.prompt !== undefined) return completed(await client.getPrompt({ name: step.prompt, arguments: args }));
  if (step.read !== undefined) return completed(await client.readResource({ uri: step.read }));
  if (step.complete !== undefined) return completed(await client.complete({ ref: step.complete, argument }));
  if (step.expect !== undefined) return completed(await inbox.expect(step.expect));
  if (step.listen !== undefined) return completed(await client.listenTo(step.listen));
  if (step.logLevel !== undefined) return completed(await client.setLogLevel(step.logLevel));
  switch (step.list) {
    case "tools":
      return completed(await client.listTools());
    case "prompts":
      return completed(await client.listPrompts());
    case "resources":
      return completed(await client.listResources());
    case "templates":
      return completed(await client.listResourceTemplates());
    default:
      throw new Error(`an unknown step: ${JSON.stringify(step)}`);
  }
}

/** Takes every step; `connect(target, plan, inbox)` gives the SDK's client, with `listenTo` and `setLogLevel`. */
export async function main(connect) {
  const [target, text = "{}"] = process.argv.slice(2);
  if (target === undefined) throw new Error("usage: node PROGRAM TARGET PLAN");
  const plan = JSON.parse(text);
  const inbox = new Inbox();
  const client = await connect(target.startsWith("[") ? JSON.parse(target) : target, plan, inbox);
  for (const [index, step] of (plan.steps ?? []).entries()) {
    let outcome;
    try {
      outcome = await perform(client, step, inbox);
    } catch (error) {
      const { name, message, code, data } = error;
      outcome = { status: "failed", error: { name, message, code, data } };
    }
    print("outcome", { step: index, ...outcome });
  }
  await client.close();
}

export function run(connect) {
  main(connect).then(
    () => process.exit(0),
    (error) => {
      const { name, message, code, data, stack } = error;
      print("error", { name, message, code, data, stack });
      process.exit(1);
    },
  );
}
