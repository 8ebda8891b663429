"""Drives a server with Python's SDK of the revisions with sessions (`mcp` 1): questions are pushed to it."""

from contextlib import AsyncExitStack
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

import steps


class Driver:
    def __init__(self, session):
        self.session = session

    async def call(self, step):
        async def progress(progress, total, message):
            steps.show("progress", progress=progress, total=total, message=message)

        # Its request is left alone after this, and the server is not told: this SDK cannot cancel.
        wait = step.get("giveUpAfterMs")
        return await self.session.call_tool(
            step["call"],
            step.get("arguments", {}),
            read_timeout_seconds=None if wait is None else timedelta(milliseconds=wait),
            progress_callback=progress,
        )

    async def prompt(self, name, arguments):
        return await self.session.get_prompt(name, arguments)

    async def read(self, uri):
        return await self.session.read_resource(AnyUrl(uri))

    async def complete(self, ref, argument):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return await self.session.complete(kind.model_validate(ref), {argument["name"]: argument["value"]} | argument)

    async def listed(self, kind):
        name = "resource_templates" if kind == "templates" else kind
        return await getattr(self.session, f"list_{name}")()

    async def listen(self, changes):
        # Such a server tells changes unasked.
        return {"honored": "all"}

    async def log_level(self, level):
        return await self.session.set_logging_level(level)


async def main(target, plan):
    inbox = steps.Inbox()

    async def elicit(context, params):
        return types.ElicitResult.model_validate(steps.answer(plan, params))

    async def sample(context, params):
        steps.show("question", method="sampling/createMessage", params=steps.plain(params))
        text = types.TextContent(type="text", text=steps.SAMPLED)
        return types.CreateMessageResult(role="assistant", model="test-model", content=text)

    async def list_roots(context):
        uri, name = steps.ROOT
        return types.ListRootsResult(roots=[types.Root(uri=AnyUrl(uri), name=name)])

    async def log(params):
        steps.show("log", **steps.plain(params))

    async def message(message):
        if isinstance(message, types.ServerNotification):
            method = message.root.method
            if method.endswith("list_changed") or method.endswith("updated"):
                inbox.put(method)

    async with AsyncExitStack() as stack:
        if isinstance(target, list):
            wire = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
        else:
            wire = streamable_http_client(target)
        read, write, *_ = await stack.enter_async_context(wire)
        session = await stack.enter_async_context(
            ClientSession(
                read,
                write,
                elicitation_callback=elicit,
                sampling_callback=sample,
                list_roots_callback=list_roots,
                logging_callback=log,
                message_handler=message,
            )
        )
        told = await session.initialize()
        steps.show("connected", era="legacy", version=told.protocolVersion, server=steps.plain(told.serverInfo))
        await steps.take(Driver(session), plan, inbox)


steps.run(main)
