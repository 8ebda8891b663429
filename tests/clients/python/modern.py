"""Drives a server with Python's official SDK (`mcp` 2), which knows no tasks but lets an extension claim them.

The class `Tasks` below is all that it takes: it polls, answers and cancels.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Literal

import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim

import steps

TASKS = "io.modelcontextprotocol/tasks"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SAMPLED = {"role": "assistant", "model": "test-model", "content": {"type": "text", "text": steps.SAMPLED}}


class Handle(types.Result):
    result_type: Literal["task"]
    task_id: str
    status: str
    poll_interval_ms: int | None = None


class State(types.Result):
    task_id: str
    status: str
    poll_interval_ms: int | None = None
    input_requests: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class Params(types.RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(types.Request[Params, str]):
    name_param = "taskId"


class Tasks(ClientExtension):
    """Follows a task to its end; its questions are answered as those of a call are."""

    identifier = TASKS

    def __init__(self, plan):
        self.plan = plan
        self.step = {}

    def claims(self):
        return [ResultClaim(result_type="task", model=Handle, resolve=self.follow)]

    async def follow(self, handle, context):
        async def send(method, model=types.Result, **params):
            request = TaskRequest(method=method, params=Params(task_id=handle.task_id, **params))
            return await context.session.send_request(request, model)

        last = None
        while True:
            task = await send("tasks/get", State)
            if task.status != last:
                steps.show("task", taskId=task.task_id, status=task.status)
                last = task.status
            if task.status == "completed":
                return types.CallToolResult.model_validate(task.result)
            if task.status == "failed":
                raise MCPError(**task.error)
            if task.status == "cancelled":
                raise steps.Cancelled
            if task.status == self.step.get("cancelOn"):
                await send("tasks/cancel")
            elif task.status == "input_required":
                for key, question in task.input_requests.items():
                    given = SAMPLED
                    if question["method"] == "elicitation/create":
                        given = steps.answer(self.plan, question["params"], key)
                    await send("tasks/update", input_responses={key: given})
            await asyncio.sleep((task.poll_interval_ms or 200) / 1000)


class Driver:
    def __init__(self, client, tasks, inbox, stack):
        self.client, self.tasks, self.inbox, self.stack = client, tasks, inbox, stack
        self.meta = None

    async def call(self, step):
        async def progress(progress, total, message):
            steps.show("progress", progress=progress, total=total, message=message)

        self.tasks.step = step
        arguments = step.get("arguments", {})
        return await self.client.call_tool(step["call"], arguments, progress_callback=progress, meta=self.meta)

    async def prompt(self, name, arguments):
        return await self.client.get_prompt(name, arguments)

    async def read(self, uri):
        return await self.client.read_resource(uri)

    async def complete(self, ref, argument):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        argument = {"name": argument["name"], "value": argument["value"]}
        return await self.client.complete(kind.model_validate(ref), argument)

    async def listed(self, kind):
        name = "resource_templates" if kind == "templates" else kind
        return await getattr(self.client, f"list_{name}")()

    async def listen(self, changes):
        subscription = await self.stack.enter_async_context(
            self.client.listen(**{f"{what}_list_changed": True for what in changes})
        )

        async def forward():
            async for event in subscription:
                # ToolsListChanged and the like.
                what = type(event).__name__.removesuffix("ListChanged").lower()
                self.inbox.put(f"notifications/{what}/list_changed")

        task = asyncio.create_task(forward())
        self.stack.callback(task.cancel)
        return {"honored": steps.plain(subscription.honored)}

    async def log_level(self, level):
        self.meta = {LOG_LEVEL: level}


async def main(target, plan):
    inbox = steps.Inbox()

    async def elicit(context, params):
        return types.ElicitResult.model_validate(steps.answer(plan, params, str(context.request_id)))

    async def sample(context, params):
        steps.show("question", method="sampling/createMessage", params=steps.plain(params))
        return types.CreateMessageResult.model_validate(SAMPLED)

    async def list_roots(context):
        uri, name = steps.ROOT
        return types.ListRootsResult(roots=[types.Root(uri=uri, name=name)])

    async def log(params):
        steps.show("log", **steps.plain(params))

    server = StdioServerParameters(command=target[0], args=target[1:]) if isinstance(target, list) else target
    tasks = Tasks(plan)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client(
                server,
                extensions=[] if plan.get("tasks") is False else [tasks],
                elicitation_callback=elicit,
                sampling_callback=sample,
                list_roots_callback=list_roots,
                logging_callback=log,
                mode=plan.get("era", "auto"),
            )
        )
        era = "modern" if client.protocol_version >= "2026-07-28" else "legacy"
        steps.show("connected", era=era, version=client.protocol_version, server=steps.plain(client.server_info))
        await steps.take(Driver(client, tasks, inbox, stack), plan, inbox)


steps.run(main)
