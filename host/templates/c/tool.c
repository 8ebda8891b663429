/* The plugin {{name}}: one tool, which asks a question. */
#define LAYBY_IMPLEMENTATION
#include "layby.h"

/* Asks whom to greet; NULL where the caller does not want to say. */
static layby_status ask_name(layby_call *call, const char **name)
{
    layby_answer answer;
    LAYBY_TRY(layby_ask_form(call, "who", "Whom shall I greet?", LAYBY_JSON({
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Your name"}},
        "required": ["name"]
    }), &answer));
    *name = layby_get_string(answer.content, "name");
    return LAYBY_OK;
}

static layby_status greet(layby_call *call, const layby_json *arguments)
{
    const char *name = layby_get_string(arguments, "name");
    layby_progress(call, 0, 1, "thinking of a greeting");
    LAYBY_TRY(layby_check(call)); /* ends here if the caller has cancelled */
    if (!name)
        LAYBY_TRY(ask_name(call, &name));
    return layby_text(call, "Hello, %s!", name ? name : "whoever you are");
}

static const layby_tool greet_tool = {
    .name = "greet",
    .description = "Greets somebody.",
    .input_schema = LAYBY_JSON({
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "description": "Their name. Where it is missing, the tool asks for it."
            }
        }
    }),
    .read_only = LAYBY_YES,
    .run = greet,
};

LAYBY_TOOLS(&greet_tool);
