// Drives a server with npm's SDK of the revisions with sessions (`@modelcontextprotocol/sdk` 1.x): a server's
// questions are pushed to it. The plan is that of ../steps.mjs.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

import { answerQuestion, clientInfo, elicited, print, roots, run, sampled, transport } from "../steps.mjs";

run(async (target, plan, inbox) => {
  const client = new Client(clientInfo, {
    capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
  });
  client.setRequestHandler(ElicitRequestSchema, ({ params }) =>
    elicited(answerQuestion(plan, "elicitation/create", params)),
  );
  client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
    print("question", { method: "sampling/createMessage", params });
    return sampled;
  });
  client.setRequestHandler(ListRootsRequestSchema, () => roots);
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => print("log", params));
  for (const schema of [
    ToolListChangedNotificationSchema,
    PromptListChangedNotificationSchema,
    ResourceListChangedNotificationSchema,
    ResourceUpdatedNotificationSchema,
  ]) {
    client.setNotificationHandler(schema, ({ method, params }) => inbox.put(method, params));
  }
  const wire = transport(target, plan, StdioClientTransport, StreamableHTTPClientTransport);
  await client.connect(wire);
  print("connected", { era: "legacy", version: wire.protocolVersion, server: client.getServerVersion() });
  // Such a server tells changes unasked.
  client.listenTo = async () => ({ honored: "all" });
  client.setLogLevel = (level) => client.setLoggingLevel(level);
  const { callTool } = client;
  // Its second parameter is a schema.
  client.callTool = (params, options) => callTool.call(client, params, undefined, options);
  const { close } = client;
  client.close = async () => {
    // Ends the session, as a client should that knows one.
    await wire.terminateSession?.();
    await close.call(client);
  };
  return client;
});
