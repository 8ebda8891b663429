"""What all Python client programs share: a plan of steps in, JSON lines out, as ../steps.mjs tells.

    python PROGRAM TARGET '{"steps": [STEP, ...], ...}'

One further step is {"call": TOOL, "arguments": {...}, "cancelOn": STATUS}, for clients that see a task.
A driver has coroutines `call(step)`, `prompt(name, arguments)`, `read(uri)`, `complete(ref, argument)`,
`listed(kind)`, `listen(changes)` and `log_level(level)`.
"""

import asyncio
import json
import sys
import traceback

EXPECT_SECONDS = 10
SAMPLED = "Paris"
ROOT = ("file:///test/root", "Test Root")


def show(event, **rest):
    print(json.dumps({"event": event, **rest}), flush=True)


def plain(value):
    """A model of pydantic as it is on the wire."""
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value


def answer(plan, params, key=None):
    """MCP's elicitation result for a question: found by its key, a property of its form, or "*"."""
    show("question", method="elicitation/create", key=key, params=plain(params))
    schema = plain(params).get("requestedSchema") or {}
    answers = plan.get("answers", {})
    name = next((n for n in [key, *schema.get("properties", {}), "*"] if n in answers), None)
    if name is None:
        raise LookupError(f"the plan has no answer for {key} {schema}")
    show("answer", key=name)
    given = answers[name]
    if isinstance(given, str):
        return {"action": {"dismiss": "cancel"}.get(given, given)}
    return given if "action" in given else {"action": "accept", "content": given}


class Inbox:
    """Notifications that have come, for the steps that expect one."""

    def __init__(self):
        self.seen = asyncio.Queue()

    def put(self, method):
        show("notification", method=method)
        self.seen.put_nowait(method)

    async def expect(self, method):
        async with asyncio.timeout(EXPECT_SECONDS):
            while await self.seen.get() != method:
                pass


class Cancelled(Exception):
    """A call ended because the plan cancelled it."""


async def perform(driver, step, inbox):
    arguments = step.get("arguments", {})
    if "call" in step:
        after = step.get("cancelAfterMs")
        call = asyncio.create_task(driver.call(step))
        if after is None:
            return await call
        await asyncio.sleep(after / 1000)
        call.cancel()
        try:
            return await call
        except asyncio.CancelledError:
            raise Cancelled from None
    if "prompt" in step:
        return await driver.prompt(step["prompt"], arguments)
    if "read" in step:
        return await driver.read(step["read"])
    if "complete" in step:
        return await driver.complete(step["complete"], step["argument"])
    if "list" in step:
        return await driver.listed(step["list"])
    if "listen" in step:
        return await driver.listen(step["listen"])
    if "logLevel" in step:
        return await driver.log_level(step["logLevel"])
    if "expect" in step:
        return await inbox.expect(step["expect"])
    raise ValueError(f"an unknown step: {step}")


async def take(driver, plan, inbox):
    """Takes every step of the plan."""
    for index, step in enumerate(plan.get("steps", [])):
        try:
            result = await perform(driver, step, inbox)
            show("outcome", step=index, status="completed", result=plain(result))
        except Cancelled:
            show("outcome", step=index, status="cancelled")
        except Exception as e:  # Whatever it is, it is the outcome.
            error = getattr(e, "error", e)
            told = {"name": type(e).__name__, "message": str(e)}
            for member in ("code", "data"):
                if getattr(error, member, None) is not None:
                    told[member] = plain(getattr(error, member))
            show("outcome", step=index, status="failed", error=told)


def run(main):
    """Runs `main(target, plan)`, where the target is a URL or a command line as a list."""
    target, plan = sys.argv[1], json.loads(sys.argv[2] if len(sys.argv) > 2 else "{}")
    try:
        asyncio.run(main(json.loads(target) if target.startswith("[") else target, plan))
    except BaseException as e:
        show("error", name=type(e).__name__, message=str(e), stack=traceback.format_exc())
        sys.exit(1)
