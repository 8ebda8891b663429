// Drives a server with npm's official client alone (`@modelcontextprotocol/client`), which speaks both eras and knows
// no tasks: its questions come as rounds of one call. The plan is that of steps.mjs, and may have `oauth`, the options of
// a ClientCredentialsProvider.

import { Client, ClientCredentialsProvider, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { answerQuestion, clientInfo, elicited, print, roots, run, sampled, transport } from "./steps.mjs";

const LOG_LEVEL = "io.modelcontextprotocol/logLevel";
const CHANGES = ["tools", "prompts", "resources"];

run(async (target, plan, inbox) => {
  const client = new Client(clientInfo, {
    capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
    versionNegotiation: { mode: plan.era ?? "auto" },
  });
  client.setRequestHandler("elicitation/create", ({ params }) =>
    elicited(answerQuestion(plan, "elicitation/create", params)),
  );
  client.setRequestHandler("sampling/createMessage", ({ params }) => {
    print("question", { method: "sampling/createMessage", params });
    return sampled;
  });
  client.setRequestHandler("roots/list", () => roots);
  client.setNotificationHandler("notifications/message", ({ params }) => print("log", params));
  for (const what of CHANGES) {
    const method = `notifications/${what}/list_changed`;
    client.setNotificationHandler(method, ({ params }) => inbox.put(method, params));
  }
  client.setNotificationHandler("notifications/resources/updated", ({ params }) =>
    inbox.put("notifications/resources/updated", params),
  );
  const authProvider = plan.oauth && new ClientCredentialsProvider(plan.oauth);
  await client.connect(transport(target, plan, StdioClientTransport, StreamableHTTPClientTransport, authProvider));
  const era = client.getProtocolEra();
  print("connected", { era, version: client.getNegotiatedProtocolVersion?.(), server: client.getServerVersion() });

  // An older server tells changes unasked.
  client.listenTo = async (changes) => {
    if (era !== "modern") return { honored: "all" };
    const filter = Object.fromEntries(changes.map((what) => [`${what}ListChanged`, true]));
    const { honoredFilter } = await client.listen(filter);
    return { honored: honoredFilter };
  };
  const { callTool } = client;
  client.setLogLevel = async (level) => {
    if (era !== "modern") return await client.setLoggingLevel(level);
    client.callTool = (params, options) => callTool.call(client, { ...params, _meta: { [LOG_LEVEL]: level } }, options);
    return {};
  };
  return client;
});
