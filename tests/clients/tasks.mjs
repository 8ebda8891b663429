// Drives one tool call with npm's official tasks client (`@modelcontextprotocol/ext-tasks` over
// `@modelcontextprotocol/client`), and prints what it sees as JSON lines.
//
//   node tasks.mjs URL '{"tool": "…", "arguments": {…}, "answers": {"KEY": ANSWER}, …}'
//
// An ANSWER is the form's content, "accept", "decline" or "dismiss", or MCP's result (`{"action": …}`).
// Further members of the plan:
//   "cancelOn": STATUS     cancel the task once it has this status
//   "detachOn": STATUS     leave the task alone once it has this status; prints its reference
//   "resume": REFERENCE    go on with a task that an earlier run left, instead of calling
//   "metadata": {…}        more `_meta` for the call
//   "headers": {…}         more HTTP headers for every request
//   "trace": true          print every request and its answer
// Exits with 0 once the call has ended, whatever its outcome, and with 1 where the client failed.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createApplicationInputHandler, createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

const PROTOCOL = "2026-07-28";
const TASKS = "io.modelcontextprotocol/tasks";
const clientInfo = { name: "layby-test-client", version: "1.0.0" };
const clientCapabilities = { elicitation: { form: {}, url: {} } };

const print = (event, rest = {}) => process.stdout.write(`${JSON.stringify({ event, ...rest })}\n`);

/** The messages of an SSE body, as they arrive. */
async function* messages(body) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    const events = rest.split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const event of events) {
      const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
      const data = lines.map((line) => line.slice(5).trimStart()).join("\n");
      if (data !== "") yield JSON.parse(data);
    }
  }
}

/** The raw requests that the tasks client needs: its SDK's own client knows no task on the wire. */
function rawDispatch(url, plan) {
  let next = 1;
  return async (request, options = {}) => {
    const id = next++;
    const { method, params } = request;
    if (plan.trace) print("request", { id, method, params });
    const name = params?.taskId ?? params?.name;
    const headers = new Headers({
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": PROTOCOL,
      "mcp-method": method,
    });
    if (name !== undefined) headers.set("mcp-name", name);
    // The tasks client brings some of these headers itself, in its own spelling: set, not append.
    for (const [key, value] of Object.entries({ ...plan.headers, ...options.context?.headers })) headers.set(key, value);
    const body = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    const response = await fetch(url, { method: "POST", signal: options.signal, headers, body });
    const answer = await answerOf(response, id);
    if (plan.trace) print("response", { id, status: response.status, answer });
    return answer.error === undefined
      ? { kind: "result", result: answer.result }
      : { kind: "error", error: answer.error };
  };
}

async function answerOf(response, id) {
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("application/json")) return await response.json();
  if (!type.startsWith("text/event-stream")) {
    throw new Error(`HTTP ${response.status}, ${type}: ${await response.text()}`);
  }
  for await (const message of messages(response.body)) {
    if (message.id === id && message.method === undefined) return message;
    if (message.method === "notifications/progress") print("progress", message.params);
    else print("notification", { method: message.method, params: message.params });
  }
  throw new Error("the stream ended without an answer");
}

/** MCP's elicitation result from an answer of the plan. */
function result(answer) {
  if (answer === "accept") return { action: "accept" };
  if (answer === "decline") return { action: "decline" };
  if (answer === "dismiss") return { action: "cancel" };
  if (typeof answer?.action === "string") return answer;
  return { action: "accept", content: answer };
}

function inputHandler(plan) {
  const nobody = (kind) => () => {
    throw new Error(`the plan has no answers of the kind ${kind}`);
  };
  return createApplicationInputHandler({
    elicitation: async ({ params }, context) => {
      const key = context.inputId;
      print("question", { key, delivery: context.delivery, taskId: context.taskId, params });
      // A task that is to be cancelled or left here waits for ever: no answer is the point.
      const left = plan.cancelOn === "input_required" || plan.detachOn === "input_required";
      if (left) return await new Promise(() => {});
      const answer = plan.answers?.[key];
      if (answer === undefined) throw new Error(`the plan has no answer for the question ${key}`);
      print("answer", { key, answer: result(answer) });
      return result(answer);
    },
    sampling: nobody("sampling"),
    roots: nobody("roots"),
  });
}

function outcomeOf(outcome) {
  switch (outcome.status) {
    case "completed":
      return { status: "completed", result: outcome.result };
    case "failed":
      return {
        status: "failed",
        error: { code: outcome.error.code, message: outcome.error.message, data: outcome.error.data },
      };
    default:
      return { status: outcome.status };
  }
}

/** Follows an execution to its end, or to where the plan leaves it. */
async function follow(execution, plan) {
  if (execution.kind !== "task") {
    const { outcome } = await execution.settle();
    return print("outcome", outcomeOf(outcome));
  }
  const taskId = execution.handle.taskId;
  for await (const event of execution.updates()) {
    if (event.type === "outcome") return print("outcome", { taskId, ...outcomeOf(event.outcome) });
    const { status, statusMessage, suggestedPollIntervalMs, retentionMs } = event.task;
    print("task", { taskId, status, statusMessage, pollIntervalMs: suggestedPollIntervalMs, ttlMs: retentionMs });
    if (plan.detachOn === status) {
      const reference = execution.serializeReference();
      print("detached", { taskId, reference });
      return await execution.detach();
    }
    if (plan.cancelOn === status && !plan.cancelled) {
      plan.cancelled = true;
      print("cancel", { taskId });
      await execution.cancel();
    }
  }
}

async function main() {
  const [url, text = "{}"] = process.argv.slice(2);
  if (url === undefined) throw new Error("usage: node tasks.mjs URL PLAN");
  const plan = JSON.parse(text);
  const client = new Client(clientInfo, {
    capabilities: { ...clientCapabilities, extensions: { [TASKS]: {} } },
    versionNegotiation: { mode: "auto" },
  });
  const options = { requestInit: { headers: plan.headers ?? {} } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
  const { tools } = await client.listTools();
  print("connected", { era: client.getProtocolEra(), server: client.getServerVersion(), tools: tools.map((t) => t.name) });
  const session = createTaskSessionFromClient(client, {
    endpointId: url,
    rawDispatch: rawDispatch(url, plan),
    v2RequestFraming: { protocolVersion: PROTOCOL, clientInfo, clientCapabilities },
    onInputRequest: inputHandler(plan),
  });
  try {
    let execution;
    if (plan.resume === undefined) {
      print("call", { tool: plan.tool, arguments: plan.arguments ?? {} });
      execution = await session.callTool(plan.tool, plan.arguments ?? {}, { metadata: plan.metadata });
    } else {
      print("resume", { reference: plan.resume });
      execution = await session.resumeTask(plan.resume);
    }
    print("execution", { kind: execution.kind, taskId: execution.handle?.taskId });
    await follow(execution, plan);
  } finally {
    await session.close();
    await client.close();
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    const { name, message, code, data } = error;
    print("error", { name, message, code, data });
    process.exit(1);
  },
);
