/* What a plugin's kit must pass on: a guest for tests and the benchmark. */
#define LAYBY_IMPLEMENTATION
#include "layby.h"

#include <time.h>

static layby_status echo(layby_call *call, const layby_json *arguments)
{
    const layby_json *text = layby_get(arguments, "text");
    return layby_text_n(call, layby_string(text), layby_string_size(text));
}

static const layby_tool echo_tool = {
    .name = "echo",
    .description = "Gives the text back.",
    .input_schema = LAYBY_JSON({
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to give back."}},
        "required": ["text"]
    }),
    .read_only = LAYBY_YES,
    .run = echo,
};

static layby_status fail(layby_call *call, const layby_json *arguments)
{
    return layby_fail(call, "%s", layby_get_string(arguments, "message"));
}

static const layby_tool fail_tool = {
    .name = "fail",
    .description = "Fails with the message.",
    .input_schema = LAYBY_JSON({
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What the failure says."}},
        "required": ["message"]
    }),
    .run = fail,
};

static layby_status trap(layby_call *call, const layby_json *arguments)
{
    (void)call;
    (void)arguments;
    abort();
}

static const layby_tool trap_tool = {
    .name = "trap",
    .description = "Ends its instance without a result.",
    .run = trap,
};

static layby_status spin(layby_call *call, const layby_json *arguments)
{
    (void)call;
    (void)arguments;
    volatile unsigned turns = 0;
    while (true)
        turns++;
    return LAYBY_OK;
}

static const layby_tool spin_tool = {
    .name = "spin",
    .description = "Computes for ever.",
    .run = spin,
};

static layby_status wait(layby_call *call, const layby_json *arguments)
{
    (void)arguments;
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    for (unsigned turn = 1; !layby_cancelled(call); turn++) {
        layby_progress(call, turn, 0, NULL);
        nanosleep(&pause, NULL);
    }
    layby_log(call, LAYBY_NOTICE, "stopped on request");
    return LAYBY_CANCELLED;
}

static const layby_tool wait_tool = {
    .name = "wait",
    .description = "Waits until it is cancelled.",
    .run = wait,
};

static const char *value_of(layby_answer answer)
{
    switch (answer.outcome) {
    case LAYBY_ACCEPTED:
        return layby_get_string(answer.content, "value");
    case LAYBY_DECLINED:
        return "declined";
    default:
        return "dismissed";
    }
}

static layby_status ask(layby_call *call, const layby_json *arguments)
{
    (void)arguments;
    static const char schema[] = LAYBY_JSON({
        "type": "object",
        "properties": {"value": {"type": "string"}},
        "required": ["value"]
    });
    const layby_question questions[] = {
        {.kind = LAYBY_FORM, .key = "first", .message = "The first?", .schema = schema},
        {.kind = LAYBY_FORM, .key = "second", .message = "The second?", .schema = schema},
    };
    layby_answer answers[2];
    LAYBY_TRY(layby_ask(call, questions, 2, answers));
    return layby_text(call, "first: %s, second: %s", value_of(answers[0]), value_of(answers[1]));
}

static const layby_tool ask_tool = {
    .name = "ask",
    .description = "Asks two questions at once.",
    .run = ask,
};

static layby_status config(layby_call *call, const layby_json *arguments)
{
    const char *value = layby_config(call, layby_get_string(arguments, "key"));
    return layby_text(call, "%s", value ? value : "no value");
}

static const layby_tool config_tool = {
    .name = "config",
    .description = "Reads a value of the configuration.",
    .input_schema = LAYBY_JSON({
        "type": "object",
        "properties": {"key": {"type": "string", "description": "The value's key."}},
        "required": ["key"]
    }),
    .read_only = LAYBY_YES,
    .run = config,
};

static layby_status log_lines(layby_call *call, const layby_json *arguments)
{
    (void)arguments;
    layby_operator_log(call, LAYBY_WARNING, "trial", "a line by wasi:logging");
    layby_log(call, LAYBY_NOTICE, "a line by the call");
    fprintf(stderr, "a line on standard error\n");
    printf("a line on standard output\n");
    return layby_text(call, "logged");
}

static const layby_tool log_tool = {
    .name = "log",
    .description = "Writes a line to every log.",
    .run = log_lines,
};

LAYBY_TOOLS(&echo_tool, &fail_tool, &trap_tool, &spin_tool, &wait_tool, &ask_tool, &config_tool, &log_tool);
