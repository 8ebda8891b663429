"""Drives a server with `fastmcp-tasks`, whose client follows tasks and answers their questions by itself."""

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp_tasks.client import call_tool_task

import steps


class Driver:
    def __init__(self, client):
        self.client = client

    async def call(self, step):
        arguments = step.get("arguments", {})
        if "cancelOn" not in step:
            # Of its ways to call the one that raises nothing for `isError`.
            return await self.client.call_tool_mcp(step["call"], arguments)
        task = await call_tool_task(self.client, step["call"], arguments)
        steps.show("task", taskId=task.task_id, status=(await task.status()).status)
        await task.wait(state=step["cancelOn"], timeout=steps.EXPECT_SECONDS)
        await task.cancel()
        ended = await task.wait(timeout=steps.EXPECT_SECONDS)
        steps.show("task", taskId=task.task_id, status=ended.status)
        if ended.status == "cancelled":
            raise steps.Cancelled
        return ended

    async def prompt(self, name, arguments):
        return await self.client.get_prompt_mcp(name, arguments)

    async def read(self, uri):
        return await self.client.read_resource_mcp(uri)

    async def complete(self, ref, argument):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return await self.client.complete_mcp(kind.model_validate(ref), argument)

    async def listed(self, kind):
        name = "resource_templates" if kind == "templates" else kind
        return await getattr(self.client, f"list_{name}_mcp")()


async def main(target, plan):
    inbox = steps.Inbox()

    async def elicit(message, response_type, params, context):
        given = steps.answer(plan, params)
        return ElicitResult(action=given["action"], content=given.get("content"))

    async def progress(progress, total, message):
        steps.show("progress", progress=progress, total=total, message=message)

    async def log(message):
        steps.show("log", **steps.plain(message))

    client = Client(target, elicitation_handler=elicit, progress_handler=progress, log_handler=log)
    async with client:
        era = "modern" if client.protocol_version >= "2026-07-28" else "legacy"
        steps.show("connected", era=era, version=client.protocol_version, server=steps.plain(client.server_info))
        await steps.take(Driver(client), plan, inbox)


steps.run(main)
