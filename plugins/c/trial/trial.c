/* What a plugin's kit must pass on: a guest for tests and the benchmark. */
#define LAYBY_IMPLEMENTATION
#include "layby.h"

#include <sys/random.h>
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
        "required": ["text"],
        "additionalProperties": false
    }),
    .read_only = LAYBY_YES,
    .nul_in_strings = true,
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
        "required": ["message"],
        "additionalProperties": false
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
    const layby_json *key = layby_get(arguments, "key");
    const char *value = layby_config_n(call, layby_string(key), layby_string_size(key));
    return layby_text(call, "%s", value ? value : "no value");
}

static const layby_tool config_tool = {
    .name = "config",
    .description = "Reads a value of the configuration.",
    .input_schema = LAYBY_JSON({
        "type": "object",
        "properties": {"key": {"type": "string", "description": "The value's key."}},
        "required": ["key"],
        "additionalProperties": false
    }),
    .read_only = LAYBY_YES,
    .nul_in_strings = true,
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

/* What a round leaves in memory. */
typedef struct round_kept {
    uint64_t drawn;
    struct timespec wall, begun;
    const char *answer;
} round_kept;

/* How long after `from` `to` is, in nanoseconds. */
static int64_t since(struct timespec from, struct timespec to)
{
    return (int64_t)(to.tv_sec - from.tv_sec) * 1000000000 + (to.tv_nsec - from.tv_nsec);
}

/* FNV-1a of 64 bits. */
static uint64_t fnv1a(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

/* The argument `name`, where it is given. A host checks the schema, and a test may not. */
static layby_status integer_within(layby_call *call, const layby_json *arguments, const char *name, int64_t least,
                                   int64_t most, int64_t *value)
{
    if (!layby_get(arguments, name))
        return LAYBY_OK;
    if (!layby_get_integer(arguments, name, value) || *value < least || *value > most)
        return layby_fail(call, "%s is a whole number from %" PRId64 " to %" PRId64, name, least, most);
    return LAYBY_OK;
}

static layby_status rounds(layby_call *call, const layby_json *arguments)
{
    static const char schema[] = LAYBY_JSON({
        "type": "object",
        "properties": {"value": {"type": "string"}},
        "required": ["value"]
    });
    int64_t count = 3, sleep_ms = 0;
    LAYBY_TRY(integer_within(call, arguments, "rounds", 1, 100, &count));
    LAYBY_TRY(integer_within(call, arguments, "sleep_ms", 0, 3600000, &sleep_ms));
    const struct timespec pause = {.tv_sec = sleep_ms / 1000, .tv_nsec = sleep_ms % 1000 * 1000000};
    round_kept *kept = layby_alloc(call, (size_t)count * sizeof *kept);

    for (int64_t i = 0; i < count; i++) {
        if (getentropy(&kept[i].drawn, sizeof kept[i].drawn) != 0)
            return layby_fail(call, "there is no randomness");
        clock_gettime(CLOCK_REALTIME, &kept[i].wall);
        clock_gettime(CLOCK_MONOTONIC, &kept[i].begun);
        layby_progress(call, (double)(i + 1), (double)count, NULL);
        printf("round %" PRId64 "\n", i + 1);

        const char *message = layby_format(call, "round %" PRId64 ": %016" PRIx64, i + 1, kept[i].drawn);
        layby_answer answer;
        LAYBY_TRY(layby_ask_form(call, "round", message, schema, &answer));
        kept[i].answer = value_of(answer);

        struct timespec asleep, awake;
        clock_gettime(CLOCK_MONOTONIC, &asleep);
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_MONOTONIC, &awake);
        for (int64_t earlier = 0; earlier <= i; earlier++)
            if (since(kept[earlier].begun, awake) < 0)
                return layby_fail(call, "the clock went back");
        if (since(asleep, awake) / 1000000 < sleep_ms)
            return layby_fail(call, "slept too little");
    }

    const char *text = "";
    for (int64_t i = 0; i < count; i++)
        text = layby_format(call, "%s%s%" PRId64 " %016" PRIx64 " %s", text, i > 0 ? "\n" : "", i + 1,
                            kept[i].drawn, kept[i].answer);
    return layby_text(call, "%s\ndigest %016" PRIx64, text, fnv1a(text));
}

static const layby_tool rounds_tool = {
    .name = "rounds",
    .description = "Draws a number, asks about it and sleeps, round after round, and tells all at the end.",
    .input_schema = LAYBY_JSON({
        "type": "object",
        "properties": {
            "rounds": {
                "type": "integer",
                "minimum": 1,
                "maximum": 100,
                "default": 3,
                "description": "How many rounds."
            },
            "sleep_ms": {
                "type": "integer",
                "minimum": 0,
                "maximum": 3600000,
                "default": 0,
                "description": "How long to sleep after each answer, in milliseconds."
            }
        },
        "additionalProperties": false
    }),
    .run = rounds,
};

LAYBY_TOOLS(&echo_tool, &fail_tool, &trap_tool, &spin_tool, &wait_tool, &ask_tool, &config_tool, &log_tool, &rounds_tool);
