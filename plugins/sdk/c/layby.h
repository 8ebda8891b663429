/*
 * layby.h: write Layby plugins in C11. One header, no generated code, no other library.
 *
 *     #define LAYBY_IMPLEMENTATION      // in one file of the plugin
 *     #include "layby.h"
 *
 *     static layby_status greet(layby_call *call, const layby_json *arguments)
 *     {
 *         return layby_text(call, "Hello, %s!", layby_get_string(arguments, "name"));
 *     }
 *
 *     static const layby_tool greet_tool = {
 *         .name = "greet",
 *         .description = "Greets somebody.",
 *         .input_schema = LAYBY_JSON({
 *             "type": "object",
 *             "properties": {"name": {"type": "string", "description": "Their name."}},
 *             "required": ["name"]
 *         }),
 *         .run = greet,
 *     };
 *
 *     LAYBY_TOOLS(&greet_tool);
 *
 * Every call runs in an instance of its own: nothing is kept from one call to the next, and static variables
 * start anew. What a plugin reaches of files and environment is what its operator's policy grants,
 * through the C library. Compiled for anything but WebAssembly, a stand-in takes the host's place, and the
 * functions `layby_test_…` at the end of this part let an ordinary program test the tools.
 *
 * Memory: whatever a function of this header returns lives until the call ends, and is never freed by its user.
 * Where memory ends, the instance does too (`abort`).
 */
#ifndef LAYBY_H
#define LAYBY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define LAYBY_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define LAYBY_PRINTF(text, first)
#endif

/* ---- Tools ------------------------------------------------------------------------------------------------ */

/* The running call: what it can tell its host, and ask of it. */
typedef struct layby_call layby_call;

/* A JSON value; see "JSON" below. */
typedef struct layby_json layby_json;

/* How a call ends, and how a question or a check may end before it. A tool hands on what it does not handle:
 * LAYBY_TRY does. */
typedef enum layby_status {
    LAYBY_OK,
    /* The tool ran and failed, and the model is to read why: the text of layby_fail, or what layby_text and
     * others have added. */
    LAYBY_FAILED,
    /* The call cannot be served: the JSON-RPC error of layby_protocol. */
    LAYBY_PROTOCOL,
    /* The caller's client cannot answer a question that the tool needs answered, or policy forbids asking it. */
    LAYBY_UNSUPPORTED,
    /* The call was cancelled. */
    LAYBY_CANCELLED,
    /* No answer came in time (only where the host is set to resume the call). A tool that ends with it fails. */
    LAYBY_TIMED_OUT,
} layby_status;

/* Ends the function with the status of `expression` where that is not LAYBY_OK. */
#define LAYBY_TRY(expression)                      \
    do {                                           \
        layby_status layby__try = (expression);    \
        if (layby__try != LAYBY_OK)                \
            return layby__try;                     \
    } while (0)

/* What a tool does. `arguments` is an object that has passed the tool's input schema. Unless the tool is
 * `.nul_in_strings`, no string in it and in the answers to its questions has a NUL inside: it is all of its text. */
typedef layby_status layby_function(layby_call *call, const layby_json *arguments);

/* A hint for clients; the host grants nothing by it. */
typedef enum layby_hint { LAYBY_UNSAID, LAYBY_NO, LAYBY_YES } layby_hint;

/* A tool, as clients see it. Members that are left out are not said. */
typedef struct layby_tool {
    /* 1 to 128 of `A-Z a-z 0-9 _ - .`, unique in the host. */
    const char *name;
    const char *title;
    const char *description;
    /* JSON Schema 2020-12 of the arguments, an object; left out: no arguments. */
    const char *input_schema;
    /* JSON Schema 2020-12 of what layby_structured gives. */
    const char *output_schema;
    layby_hint read_only, destructive, idempotent, open_world;
    /* MCP's `icons` and `_meta`, as one JSON object with no other members. */
    const char *extra;
    /* Strings with a NUL (U+0000) inside are let in, for a tool that reads them by layby_string_size: a C string
     * ends at the first. Left out, a call or an answer that has one fails, and says where. */
    bool nul_in_strings;
    layby_function *run;
} layby_tool;

/* The plugin's tools, ended by NULL; LAYBY_TOOLS defines it. */
extern const layby_tool *const layby_tools[];
#define LAYBY_TOOLS(...) const layby_tool *const layby_tools[] = {__VA_ARGS__, NULL}

/* JSON text as a C string, from JSON written as it is. Comments are dropped; backslashes stay as they are. */
#define LAYBY_JSON(...) #__VA_ARGS__

/* ---- Results ---------------------------------------------------------------------------------------------- */

/* Each adds one piece of content and returns LAYBY_OK, so that a tool can end with it. Text that is not UTF-8
 * gets U+FFFD for each byte that cannot be read. */
layby_status layby_text(layby_call *call, const char *format, ...) LAYBY_PRINTF(2, 3);
layby_status layby_text_n(layby_call *call, const char *text, size_t size);
layby_status layby_image(layby_call *call, const char *mime_type, const void *data, size_t size);
layby_status layby_audio(layby_call *call, const char *mime_type, const void *data, size_t size);
/* Members but `uri` and `name` may be NULL. */
layby_status layby_link(layby_call *call, const char *uri, const char *name, const char *title,
                        const char *description, const char *mime_type);
layby_status layby_embed_text(layby_call *call, const char *uri, const char *mime_type, const char *text);
layby_status layby_embed_blob(layby_call *call, const char *uri, const char *mime_type, const void *data,
                              size_t size);
/* Any MCP content block, for what the others cannot say. */
layby_status layby_content(layby_call *call, const layby_json *block);

/* The structured content, valid under the tool's output schema. A result without other content has its text too. */
layby_status layby_structured(layby_call *call, const layby_json *value);
/* The result's `_meta`, an object. */
layby_status layby_meta(layby_call *call, const layby_json *value);

/* Returns LAYBY_FAILED; where the tool ends with it, this text is the whole result. */
layby_status layby_fail(layby_call *call, const char *format, ...) LAYBY_PRINTF(2, 3);
/* Returns LAYBY_PROTOCOL. `code` is outside -32768 to -32000, or -32602 or -32603; any other becomes -32603. */
layby_status layby_protocol(layby_call *call, int32_t code, const char *format, ...) LAYBY_PRINTF(3, 4);

/* ---- Progress, cancellation, log, configuration ----------------------------------------------------------- */

/* Says how far the call has come: `done` of `total` units (0 or less: no total). `message` may be NULL. The host
 * drops values that are not finite or do not increase. */
void layby_progress(layby_call *call, double done, double total, const char *message);

/* True once the caller has asked for cancellation. The instance is stopped by force when its grace period ends. */
bool layby_cancelled(layby_call *call);
/* The same as a status: LAYBY_TRY(layby_check(call)) before every effect that others can see, and now and then
 * in a long loop. */
layby_status layby_check(layby_call *call);

/* How serious a line of the log is. The call's log has no TRACE (it becomes DEBUG), the operator's no NOTICE
 * (INFO). */
typedef enum layby_level {
    LAYBY_TRACE,
    LAYBY_DEBUG,
    LAYBY_INFO,
    LAYBY_NOTICE,
    LAYBY_WARNING,
    LAYBY_ERROR,
    LAYBY_CRITICAL,
} layby_level;

/* A line for the operator's log, and for the caller's client where it asked for log messages. */
void layby_log(layby_call *call, layby_level level, const char *format, ...) LAYBY_PRINTF(3, 4);
/* A line for the operator's log alone (`wasi:logging`). `context` says what it is about, and may be empty. */
void layby_operator_log(layby_call *call, layby_level level, const char *context, const char *format, ...)
    LAYBY_PRINTF(4, 5);

/* The value that the plugin's policy has for `key` under `grants.config`; NULL where it has none. */
const char *layby_config(layby_call *call, const char *key);
/* The same for a key that may have a NUL inside. */
const char *layby_config_n(layby_call *call, const char *key, size_t size);
/* All of them, as an object of strings. */
const layby_json *layby_config_all(layby_call *call);

/* What has changed, so that the host lists again and tells subscribers. */
typedef enum layby_change { LAYBY_CHANGED_TOOLS, LAYBY_CHANGED_PROMPTS, LAYBY_CHANGED_RESOURCES } layby_change;
void layby_changed(layby_call *call, layby_change what);
/* The contents of the resource with this URI have. */
void layby_changed_contents(layby_call *call, const char *uri);

/* ---- Questions -------------------------------------------------------------------------------------------- */

typedef enum layby_kind { LAYBY_FORM, LAYBY_URL, LAYBY_SAMPLING, LAYBY_ROOTS } layby_kind;

/* A question to the caller. */
typedef struct layby_question {
    layby_kind kind;
    /* What the caller sees as its key, such as `user_name`. Used again within a call, it becomes `user_name_2`. */
    const char *key;
    /* Of a form and a URL. */
    const char *message;
    /* Of a form: a flat object schema, MCP's `requestedSchema`. */
    const char *schema;
    /* Of a URL. */
    const char *url;
    /* Of a sampling: the parameters of MCP's `sampling/createMessage`, one JSON object. */
    const char *params;
} layby_question;

typedef enum layby_outcome {
    /* The caller gave an answer. */
    LAYBY_ACCEPTED,
    /* The caller said no. */
    LAYBY_DECLINED,
    /* The caller closed the question without saying yes or no. */
    LAYBY_DISMISSED,
} layby_outcome;

/* What became of a question. */
typedef struct layby_answer {
    layby_outcome outcome;
    /* A form's content, `{}` for a URL, or MCP's result object. NULL unless accepted. */
    const layby_json *content;
} layby_answer;

/* Whether the caller's client can answer this kind of question, and policy lets this plugin ask it. */
bool layby_supports(layby_call *call, layby_kind kind);

/* Puts `count` questions at once, and returns when each is answered, perhaps days later and in another process:
 * variables are as they were. Where it does not return LAYBY_OK, `answers` is untouched. */
layby_status layby_ask(layby_call *call, const layby_question *questions, size_t count, layby_answer *answers);
/* The same for one question. */
layby_status layby_ask_form(layby_call *call, const char *key, const char *message, const char *schema,
                            layby_answer *answer);
layby_status layby_ask_url(layby_call *call, const char *key, const char *message, const char *url,
                           layby_answer *answer);
layby_status layby_ask_sampling(layby_call *call, const char *key, const char *params, layby_answer *answer);
layby_status layby_ask_roots(layby_call *call, const char *key, layby_answer *answer);

/* ---- Memory and text -------------------------------------------------------------------------------------- */

/* Zeroed memory, aligned for any type, that lives until the call ends. */
void *layby_alloc(layby_call *call, size_t size);
/* Text by printf's rules, likewise. */
char *layby_format(layby_call *call, const char *format, ...) LAYBY_PRINTF(2, 3);
/* How many of the first bytes are well-formed UTF-8: `size` where all are. */
size_t layby_utf8(const char *text, size_t size);

/* ---- JSON ------------------------------------------------------------------------------------------------- */

/* A value nests at most this deep. */
#define LAYBY_JSON_DEPTH 128

typedef enum layby_type {
    LAYBY_NULL,
    LAYBY_BOOL,
    /* A number without fraction or exponent that fits 64 bits. */
    LAYBY_INTEGER,
    /* Any other number. */
    LAYBY_NUMBER,
    LAYBY_STRING,
    LAYBY_ARRAY,
    LAYBY_OBJECT,
} layby_type;

/* Read it by the functions below; all of them take NULL for a value that is not there. */
struct layby_json {
    layby_type type;
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct {
            const char *text;
            size_t size;
        } string;
        struct {
            layby_json *first, *last;
            size_t count;
        } items;
    } as;
    /* The member's name, where the value is in an object. */
    const char *name;
    layby_json *next;
    layby_call *call;
    bool held;
};

/* The member `name` of an object; NULL where there is none, or `value` is no object. */
const layby_json *layby_get(const layby_json *value, const char *name);
/* The same, where it is a string (ended by NUL) or NULL. */
const char *layby_get_string(const layby_json *value, const char *name);
/* The same; false, with `*into` untouched, where there is none or it is of another type. */
bool layby_get_bool(const layby_json *value, const char *name, bool *into);
bool layby_get_integer(const layby_json *value, const char *name, int64_t *into);
bool layby_get_number(const layby_json *value, const char *name, double *into);

/* The text of a string, else NULL; its bytes, for text that has a NUL inside, else 0. */
const char *layby_string(const layby_json *value);
size_t layby_string_size(const layby_json *value);
/* False, with `*into` untouched, where it is of another type. An integer is a number, too; and a number without a
 * fraction is an integer, as JSON Schema has it (`1.0`, `1e1`), from -2^53 to 2^53, where a double is exact. */
bool layby_bool(const layby_json *value, bool *into);
bool layby_integer(const layby_json *value, int64_t *into);
bool layby_number(const layby_json *value, double *into);

/* How many items an array or an object has, and each: `for (item = layby_first(v); item; item = layby_next(item))`. */
size_t layby_count(const layby_json *value);
const layby_json *layby_first(const layby_json *value);
const layby_json *layby_next(const layby_json *item);

/* Values of one's own. */
layby_json *layby_object(layby_call *call);
layby_json *layby_array(layby_call *call);
/* Sets a member; one of the same name is replaced. A value that is in another already is set as a copy. */
void layby_set(layby_json *object, const char *name, const layby_json *value);
void layby_set_string(layby_json *object, const char *name, const char *text);
void layby_set_string_n(layby_json *object, const char *name, const char *text, size_t size);
void layby_set_bool(layby_json *object, const char *name, bool value);
void layby_set_integer(layby_json *object, const char *name, int64_t value);
/* A number that is not finite becomes null: JSON has no word for it. */
void layby_set_number(layby_json *object, const char *name, double value);
/* Adds an item to the end of an array. */
void layby_add(layby_json *array, const layby_json *value);
void layby_add_string(layby_json *array, const char *text);
void layby_add_string_n(layby_json *array, const char *text, size_t size);
void layby_add_bool(layby_json *array, bool value);
void layby_add_integer(layby_json *array, int64_t value);
void layby_add_number(layby_json *array, double value);

/* Reads JSON strictly (RFC 8259, UTF-8). NULL where it is malformed; then `*error` says what is wrong, and where. */
const layby_json *layby_parse(layby_call *call, const char *text, size_t size, const char **error);
/* The value as JSON text without white space; numbers read back as they were. */
const char *layby_json_text(layby_call *call, const layby_json *value);

/* ---- Tests, outside WebAssembly --------------------------------------------------------------------------- */

#ifndef __wasm__

/* How a call ended, as its host sees it. */
typedef struct layby_test_result {
    /* LAYBY_OK, LAYBY_FAILED, LAYBY_PROTOCOL, LAYBY_UNSUPPORTED or LAYBY_CANCELLED. */
    layby_status status;
    /* All text content, each on a line of its own; or the message of the JSON-RPC error. */
    const char *text;
    /* How many pieces of content there are. */
    size_t contents;
    /* The code of a JSON-RPC error. */
    int32_t code;
    /* The structured content as JSON text, and as a value; NULL where there is none. */
    const char *structured;
    const layby_json *value;
} layby_test_result;

/* Starts a test with a host that has no answers, cancels nothing and has heard nothing. The call is for functions
 * that take one; it and all that came of it ends with the next layby_test_begin. */
layby_call *layby_test_begin(void);
/* The answer to the next question that has none yet; `json` is its content where it is accepted. A host without
 * answers supports no question. */
void layby_test_answer(layby_outcome outcome, const char *json);
/* Cancels the call after `checks` checks that said no. */
void layby_test_cancel_after(size_t checks);
/* A value of the configuration. */
void layby_test_config(const char *key, const char *value);
/* Calls a tool as the host does. The result lives until the next layby_test_call or layby_test_begin. */
layby_test_result layby_test_call(const char *tool, const char *arguments);
/* All that was said to the host since the test began, a line each: `progress 1/2 MESSAGE`, `progress 1 MESSAGE`,
 * `log notice: LINE`, `operator warn CONTEXT: LINE`, `ask KEY: form MESSAGE SCHEMA`, `ask KEY: url MESSAGE URL`,
 * `ask KEY: sampling PARAMS`, `ask KEY: roots`, `changed tools`. */
const char *layby_test_said(void);

/* Ends the program where a condition is false, or two strings differ, and says so. */
#define LAYBY_EXPECT(condition) \
    ((condition) ? (void)0 : layby_test_unexpected(__FILE__, __LINE__, #condition, NULL, NULL))
#define LAYBY_EXPECT_STRING(actual, expected) layby_test_compare(__FILE__, __LINE__, #actual, actual, expected)
void layby_test_compare(const char *file, int line, const char *what, const char *actual, const char *expected);
void layby_test_unexpected(const char *file, int line, const char *what, const char *actual, const char *expected);

#endif /* __wasm__ */
#endif /* LAYBY_H */

/* ============================================================================================================ */

#if defined(LAYBY_IMPLEMENTATION) && !defined(LAYBY_IMPLEMENTED)
#define LAYBY_IMPLEMENTED

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The canonical ABI of wit/plugin.wit ------------------------------------------------------------------ */

/* On wasm32, C lays these out as the component model's canonical ABI has the types of the same names. */

typedef struct layby__abi_string {
    const char *data;
    size_t size;
} layby__abi_string;

typedef struct layby__abi_option_string {
    bool some;
    layby__abi_string value;
} layby__abi_option_string;

typedef struct layby__abi_option_bool {
    bool some;
    bool value;
} layby__abi_option_bool;

typedef struct layby__abi_tool {
    layby__abi_string name;
    layby__abi_option_string title;
    layby__abi_string description;
    layby__abi_string input_schema;
    layby__abi_option_string output_schema;
    layby__abi_option_bool read_only, destructive, idempotent, open_world;
    layby__abi_option_string extra;
} layby__abi_tool;

typedef struct layby__abi_tools {
    const layby__abi_tool *data;
    size_t count;
} layby__abi_tools;

enum { LAYBY__TEXT, LAYBY__IMAGE, LAYBY__AUDIO, LAYBY__LINK, LAYBY__EMBEDDED, LAYBY__OTHER };

typedef struct layby__abi_content {
    uint8_t tag;
    union {
        layby__abi_string text;
        struct {
            layby__abi_string data, mime_type;
        } media;
        struct {
            layby__abi_string uri, name;
            layby__abi_option_string title, description, mime_type;
        } link;
        struct {
            layby__abi_string uri;
            layby__abi_option_string mime_type;
            /* 0: text, 1: blob. */
            uint8_t tag;
            layby__abi_string contents;
        } embedded;
    } as;
} layby__abi_content;

typedef struct layby__abi_result {
    const layby__abi_content *data;
    size_t count;
    layby__abi_option_string structured, meta;
} layby__abi_result;

enum { LAYBY__FAILED, LAYBY__PROTOCOL, LAYBY__UNSUPPORTED, LAYBY__CANCELLED };

typedef struct layby__abi_error {
    uint8_t tag;
    union {
        layby__abi_result failed;
        struct {
            int32_t code;
            layby__abi_string message;
            layby__abi_option_string data;
        } protocol;
    } as;
} layby__abi_error;

typedef struct layby__abi_outcome {
    bool failed;
    union {
        layby__abi_result result;
        layby__abi_error error;
    } as;
} layby__abi_outcome;

typedef struct layby__abi_request {
    layby__abi_string key;
    uint8_t tag;
    union {
        struct {
            layby__abi_string message, schema;
        } form;
        struct {
            layby__abi_string message, url;
        } url;
        layby__abi_string sampling;
    } as;
} layby__abi_request;

typedef struct layby__abi_answer {
    uint8_t tag;
    layby__abi_string content;
} layby__abi_answer;

enum { LAYBY__ASK_UNSUPPORTED, LAYBY__ASK_TIMED_OUT, LAYBY__ASK_INVALID, LAYBY__ASK_CANCELLED };

typedef struct layby__abi_answers {
    bool failed;
    union {
        struct {
            layby__abi_answer *data;
            size_t count;
        } answers;
        struct {
            uint8_t tag;
            layby__abi_string reason;
        } error;
    } as;
} layby__abi_answers;

/* A variant of nothing and a string, or of two strings, in its place. */
typedef struct layby__abi_value {
    bool failed;
    layby__abi_option_string value;
} layby__abi_value;

typedef struct layby__abi_pair {
    layby__abi_string key, value;
} layby__abi_pair;

typedef struct layby__abi_pairs {
    bool failed;
    union {
        struct {
            layby__abi_pair *data;
            size_t count;
        } pairs;
        struct {
            uint8_t tag;
            layby__abi_string reason;
        } error;
    } as;
} layby__abi_pairs;

#ifdef __wasm__
_Static_assert(sizeof(layby__abi_tool) == 68, "the layout of a tool");
_Static_assert(offsetof(layby__abi_tool, extra) == 56, "the layout of a tool");
_Static_assert(sizeof(layby__abi_content) == 56, "the layout of a content");
_Static_assert(sizeof(layby__abi_result) == 32, "the layout of a tool-result");
_Static_assert(sizeof(layby__abi_error) == 36, "the layout of a tool-error");
_Static_assert(sizeof(layby__abi_outcome) == 40, "the layout of a call's result");
_Static_assert(sizeof(layby__abi_request) == 28, "the layout of an input-request");
_Static_assert(sizeof(layby__abi_answer) == 12, "the layout of an input-answer");
_Static_assert(sizeof(layby__abi_answers) == 16, "the layout of request-input's result");
_Static_assert(sizeof(layby__abi_value) == 16, "the layout of store.get's result");

#define LAYBY__IMPORT(interface, function) __attribute__((import_module(interface), import_name(function)))
#define LAYBY__EXPORT(name) __attribute__((export_name(name)))
#else
/* Defined by the stand-in. */
#define LAYBY__IMPORT(interface, function)
#define LAYBY__EXPORT(name)
#endif

#define LAYBY__CALL "layby:plugin/call@1.0.0"
#define LAYBY__TOOLS "layby:plugin/tools@1.0.0"

/* What is never called is not imported either: the linker drops it. */
LAYBY__IMPORT(LAYBY__CALL, "report-progress")
void layby__report_progress(double done, int32_t has_total, double total, int32_t has_message, const char *message,
                            size_t size);
LAYBY__IMPORT(LAYBY__CALL, "check-cancelled")
int32_t layby__check_cancelled(void);
LAYBY__IMPORT(LAYBY__CALL, "log")
void layby__log(int32_t level, const char *message, size_t size);
LAYBY__IMPORT(LAYBY__CALL, "supports")
int32_t layby__supports(int32_t kind);
LAYBY__IMPORT(LAYBY__CALL, "changed")
void layby__changed(int32_t what, const char *uri, size_t size);
LAYBY__IMPORT(LAYBY__CALL, "request-input")
void layby__request_input(const layby__abi_request *requests, size_t count, layby__abi_answers *result);
LAYBY__IMPORT("wasi:config/store@0.2.0-draft", "get")
void layby__config_get(const char *key, size_t size, layby__abi_value *result);
LAYBY__IMPORT("wasi:config/store@0.2.0-draft", "get-all")
void layby__config_get_all(layby__abi_pairs *result);
LAYBY__IMPORT("wasi:logging/logging@0.1.0-draft", "log")
void layby__operator_log(int32_t level, const char *context, size_t context_size, const char *message, size_t size);

/* ---- Memory ----------------------------------------------------------------------------------------------- */

#define LAYBY__CHUNK_BYTES 4096

typedef struct layby__chunk {
    struct layby__chunk *next;
    size_t used, size;
    max_align_t data[];
} layby__chunk;

struct layby_call {
    layby__chunk *chunks;
    layby__abi_content *contents;
    size_t count, capacity;
    /* The text of layby_fail, or the message of layby_protocol. */
    const char *failure, *refusal;
    int32_t code;
    const char *structured, *meta;
    /* As the tool that runs has it. */
    bool nul_in_strings;
    layby__abi_outcome outcome;
    layby__abi_tools tools;
};

/* An instance serves one call at a time. */
static layby_call layby__now;

static _Noreturn void layby__die(const char *why)
{
    fprintf(stderr, "layby: %s\n", why);
    abort();
}

void *layby_alloc(layby_call *call, size_t size)
{
    const size_t unit = _Alignof(max_align_t);
    if (size > SIZE_MAX / 2)
        layby__die("too much memory asked for");
    size = (size + unit - 1) / unit * unit;
    layby__chunk *chunk = call->chunks;
    if (!chunk || chunk->size - chunk->used < size) {
        size_t least = chunk && chunk->size < LAYBY__CHUNK_BYTES * 16 ? chunk->size * 2 : LAYBY__CHUNK_BYTES;
        size_t room = size > least ? size : least;
        layby__chunk *fresh = malloc(sizeof *fresh + room);
        if (!fresh)
            layby__die("out of memory");
        fresh->used = 0;
        fresh->size = room;
        /* A chunk for one large piece must not hide the room that the newest one still has. */
        if (chunk && size > least) {
            fresh->next = chunk->next;
            chunk->next = fresh;
        } else {
            fresh->next = chunk;
            call->chunks = fresh;
        }
        chunk = fresh;
    }
    void *piece = (char *)chunk->data + chunk->used;
    chunk->used += size;
    return memset(piece, 0, size);
}

static void layby__end(layby_call *call)
{
    for (layby__chunk *chunk = call->chunks; chunk;) {
        layby__chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    memset(call, 0, sizeof *call);
}

static char *layby__copy(layby_call *call, const char *text, size_t size)
{
    char *copy = layby_alloc(call, size + 1);
    if (size)
        memcpy(copy, text, size);
    return copy;
}

static char *layby__vformat(layby_call *call, const char *format, va_list list)
{
    char few[256];
    va_list again;
    va_copy(again, list);
    int size = vsnprintf(few, sizeof few, format, list);
    if (size < 0)
        layby__die("a format cannot be printed");
    char *text = layby_alloc(call, (size_t)size + 1);
    if ((size_t)size < sizeof few)
        memcpy(text, few, (size_t)size);
    else
        vsnprintf(text, (size_t)size + 1, format, again);
    va_end(again);
    return text;
}

char *layby_format(layby_call *call, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char *text = layby__vformat(call, format, list);
    va_end(list);
    return text;
}

/* Bytes of the well-formed UTF-8 sequence that `text` starts with; 0 where it starts with none. */
static size_t layby__sequence(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    if (size == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    size_t length = s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    if (length == 0 || length > size)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xED && s[1] > 0x9F;
    bool too_large = s[0] == 0xF4 && s[1] > 0x8F;
    return overlong || surrogate || too_large ? 0 : length;
}

size_t layby_utf8(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        /* Most text is ASCII: eight bytes at once. */
        uint64_t eight;
        if (size - at >= sizeof eight) {
            memcpy(&eight, text + at, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                at += sizeof eight;
                continue;
            }
        }
        size_t length = layby__sequence(text + at, size - at);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}

/* The text as UTF-8: the host stops an instance that hands it anything else. */
static layby__abi_string layby__clean(layby_call *call, const char *text, size_t size)
{
    size_t good = layby_utf8(text, size);
    if (good == size)
        return (layby__abi_string){text, size};
    char *clean = layby_alloc(call, size * 3 + 1);
    size_t to = 0;
    for (size_t at = 0; at < size;) {
        size_t length = layby__sequence(text + at, size - at);
        memcpy(clean + to, length ? text + at : "\xEF\xBF\xBD", length ? length : 3);
        to += length ? length : 3;
        at += length ? length : 1;
    }
    return (layby__abi_string){clean, to};
}

static layby__abi_string layby__text(layby_call *call, const char *text)
{
    return layby__clean(call, text ? text : "", text ? strlen(text) : 0);
}

static layby__abi_option_string layby__option(layby_call *call, const char *text)
{
    layby__abi_option_string none = {false, {NULL, 0}};
    return text ? (layby__abi_option_string){true, layby__text(call, text)} : none;
}

/* ---- JSON: values ----------------------------------------------------------------------------------------- */

static bool layby__is(const layby_json *value, layby_type type)
{
    return value && value->type == type;
}

static bool layby__holds(const layby_json *value)
{
    return layby__is(value, LAYBY_ARRAY) || layby__is(value, LAYBY_OBJECT);
}

static layby_json *layby__member(const layby_json *value, const char *name)
{
    if (layby__is(value, LAYBY_OBJECT))
        for (layby_json *item = value->as.items.first; item; item = item->next)
            if (strcmp(item->name, name) == 0)
                return item;
    return NULL;
}

const layby_json *layby_get(const layby_json *value, const char *name)
{
    return layby__member(value, name);
}

const char *layby_get_string(const layby_json *value, const char *name)
{
    return layby_string(layby_get(value, name));
}

bool layby_get_bool(const layby_json *value, const char *name, bool *into)
{
    return layby_bool(layby_get(value, name), into);
}

bool layby_get_integer(const layby_json *value, const char *name, int64_t *into)
{
    return layby_integer(layby_get(value, name), into);
}

bool layby_get_number(const layby_json *value, const char *name, double *into)
{
    return layby_number(layby_get(value, name), into);
}

const char *layby_string(const layby_json *value)
{
    return layby__is(value, LAYBY_STRING) ? value->as.string.text : NULL;
}

size_t layby_string_size(const layby_json *value)
{
    return layby__is(value, LAYBY_STRING) ? value->as.string.size : 0;
}

bool layby_bool(const layby_json *value, bool *into)
{
    if (!layby__is(value, LAYBY_BOOL))
        return false;
    *into = value->as.boolean;
    return true;
}

bool layby_integer(const layby_json *value, int64_t *into)
{
    const double exact = 9007199254740992; /* 2^53 */
    if (layby__is(value, LAYBY_INTEGER))
        *into = value->as.integer;
    else if (layby__is(value, LAYBY_NUMBER) && fabs(value->as.number) <= exact &&
             value->as.number == (double)(int64_t)value->as.number)
        *into = (int64_t)value->as.number;
    else
        return false;
    return true;
}

bool layby_number(const layby_json *value, double *into)
{
    if (layby__is(value, LAYBY_INTEGER))
        *into = (double)value->as.integer;
    else if (layby__is(value, LAYBY_NUMBER))
        *into = value->as.number;
    else
        return false;
    return true;
}

size_t layby_count(const layby_json *value)
{
    return layby__holds(value) ? value->as.items.count : 0;
}

const layby_json *layby_first(const layby_json *value)
{
    return layby__holds(value) ? value->as.items.first : NULL;
}

const layby_json *layby_next(const layby_json *item)
{
    return item->next;
}

static layby_json *layby__value(layby_call *call, layby_type type)
{
    layby_json *value = layby_alloc(call, sizeof *value);
    value->type = type;
    value->call = call;
    return value;
}

layby_json *layby_object(layby_call *call)
{
    return layby__value(call, LAYBY_OBJECT);
}

layby_json *layby_array(layby_call *call)
{
    return layby__value(call, LAYBY_ARRAY);
}

static layby_json *layby__new_string(layby_call *call, const char *text, size_t size)
{
    layby_json *value = layby__value(call, LAYBY_STRING);
    layby__abi_string clean = layby__clean(call, text, size);
    value->as.string.text = layby__copy(call, clean.data, clean.size);
    value->as.string.size = clean.size;
    return value;
}

static layby_json *layby__new_bool(layby_call *call, bool boolean)
{
    layby_json *value = layby__value(call, LAYBY_BOOL);
    value->as.boolean = boolean;
    return value;
}

static layby_json *layby__new_integer(layby_call *call, int64_t integer)
{
    layby_json *value = layby__value(call, LAYBY_INTEGER);
    value->as.integer = integer;
    return value;
}

static layby_json *layby__new_number(layby_call *call, double number)
{
    layby_json *value = layby__value(call, isfinite(number) ? LAYBY_NUMBER : LAYBY_NULL);
    value->as.number = number;
    return value;
}

static void layby__append(layby_json *into, layby_json *value)
{
    value->held = true;
    if (into->as.items.last)
        into->as.items.last->next = value;
    else
        into->as.items.first = value;
    into->as.items.last = value;
    into->as.items.count++;
}

/* A copy of a value and all that is in it. */
static layby_json *layby__duplicate(layby_call *call, const layby_json *value, unsigned depth)
{
    /* Also what ends a value that has been put into itself. */
    if (depth > LAYBY_JSON_DEPTH)
        layby__die("a JSON value is nested too deep");
    layby_json *copy = layby__value(call, value->type);
    if (!layby__holds(value)) {
        copy->as = value->as;
        return copy;
    }
    for (const layby_json *item = value->as.items.first; item; item = item->next) {
        layby_json *same = layby__duplicate(call, item, depth + 1);
        same->name = item->name;
        layby__append(copy, same);
    }
    return copy;
}

/* A value that can be put into another: itself, or a copy where it is in one already. */
static layby_json *layby__loose(layby_call *call, const layby_json *value)
{
    if (!value)
        return layby__value(call, LAYBY_NULL);
    return value->held ? layby__duplicate(call, value, 1) : (layby_json *)(uintptr_t)value;
}

void layby_set(layby_json *object, const char *name, const layby_json *value)
{
    if (!layby__is(object, LAYBY_OBJECT))
        layby__die("layby_set is for objects");
    layby_json *loose = layby__loose(object->call, value);
    layby_json *old = layby__member(object, name);
    if (!old) {
        layby__abi_string clean = layby__text(object->call, name);
        loose->name = layby__copy(object->call, clean.data, clean.size);
        layby__append(object, loose);
        return;
    }
    old->type = loose->type;
    old->as = loose->as;
}

void layby_set_string(layby_json *object, const char *name, const char *text)
{
    layby_set_string_n(object, name, text, strlen(text));
}

void layby_set_string_n(layby_json *object, const char *name, const char *text, size_t size)
{
    layby_set(object, name, layby__new_string(object->call, text, size));
}

void layby_set_bool(layby_json *object, const char *name, bool value)
{
    layby_set(object, name, layby__new_bool(object->call, value));
}

void layby_set_integer(layby_json *object, const char *name, int64_t value)
{
    layby_set(object, name, layby__new_integer(object->call, value));
}

void layby_set_number(layby_json *object, const char *name, double value)
{
    layby_set(object, name, layby__new_number(object->call, value));
}

void layby_add(layby_json *array, const layby_json *value)
{
    if (!layby__is(array, LAYBY_ARRAY))
        layby__die("layby_add is for arrays");
    layby__append(array, layby__loose(array->call, value));
}

void layby_add_string(layby_json *array, const char *text)
{
    layby_add_string_n(array, text, strlen(text));
}

void layby_add_string_n(layby_json *array, const char *text, size_t size)
{
    layby_add(array, layby__new_string(array->call, text, size));
}

void layby_add_bool(layby_json *array, bool value)
{
    layby_add(array, layby__new_bool(array->call, value));
}

void layby_add_integer(layby_json *array, int64_t value)
{
    layby_add(array, layby__new_integer(array->call, value));
}

void layby_add_number(layby_json *array, double value)
{
    layby_add(array, layby__new_number(array->call, value));
}

/* ---- JSON: reading ---------------------------------------------------------------------------------------- */

typedef struct layby__reader {
    layby_call *call;
    const char *start, *at, *end;
    const char *error;
    unsigned depth;
} layby__reader;

static layby_json *layby__read_value(layby__reader *r);

/* Notes what is wrong at the place where reading stands; always NULL. */
static layby_json *layby__wrong(layby__reader *r, const char *what)
{
    if (!r->error)
        r->error = layby_format(r->call, "byte %zu: %s", (size_t)(r->at - r->start), what);
    return NULL;
}

static int layby__peek(const layby__reader *r)
{
    return r->at < r->end ? (unsigned char)*r->at : -1;
}

static bool layby__take(layby__reader *r, char c)
{
    if (layby__peek(r) != c)
        return false;
    r->at++;
    return true;
}

static void layby__skip_space(layby__reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool layby__digits(layby__reader *r)
{
    const char *start = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return r->at > start;
}

static layby_json *layby__read_number(layby__reader *r)
{
    const char *start = r->at;
    bool negative = layby__take(r, '-');
    if (!layby__take(r, '0') && !layby__digits(r))
        return layby__wrong(r, "a digit is missing");
    bool integer = true;
    if (layby__take(r, '.')) {
        integer = false;
        if (!layby__digits(r))
            return layby__wrong(r, "a digit is missing");
    }
    if (layby__take(r, 'e') || layby__take(r, 'E')) {
        integer = false;
        if (!layby__take(r, '+'))
            (void)layby__take(r, '-');
        if (!layby__digits(r))
            return layby__wrong(r, "a digit is missing");
    }
    uint64_t sum = 0;
    const uint64_t most = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    for (const char *c = start + negative; integer && c < r->at; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (sum > (most - digit) / 10)
            integer = false;
        else
            sum = sum * 10 + digit;
    }
    /* Only a double can be a negative zero. */
    if (integer && !(negative && sum == 0))
        return layby__new_integer(r->call, negative ? -(int64_t)(sum - 1) - 1 : (int64_t)sum);
    double number = strtod(layby__copy(r->call, start, (size_t)(r->at - start)), NULL);
    if (!isfinite(number))
        return layby__wrong(r, "a number is too large");
    return layby__new_number(r->call, number);
}

static bool layby__read_hex(layby__reader *r, uint32_t *into)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        int c = layby__peek(r);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return false;
        value = value * 16 + (uint32_t)digit;
    }
    *into = value;
    return true;
}

static size_t layby__encode(uint32_t code, char *to)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3F));
    to[0] = (char)((0xF00 >> length & 0xFF) | code);
    return length;
}

/* The rest of `\uXXXX`, with its second half where it is a surrogate; the bytes written, or 0. */
static size_t layby__read_code(layby__reader *r, char *to)
{
    uint32_t code, low;
    if (!layby__read_hex(r, &code))
        return layby__wrong(r, "four hexadecimal digits are missing"), 0;
    if (code >= 0xDC00 && code <= 0xDFFF)
        return layby__wrong(r, "a surrogate has no first half"), 0;
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (!layby__take(r, '\\') || !layby__take(r, 'u') || !layby__read_hex(r, &low) || low < 0xDC00 ||
            low > 0xDFFF)
            return layby__wrong(r, "a surrogate has no second half"), 0;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    return layby__encode(code, to);
}

static size_t layby__read_escape(layby__reader *r, char *to)
{
    static const char names[] = "\"\\/bfnrt", codes[] = "\"\\/\b\f\n\r\t";
    int c = layby__peek(r);
    const char *found = c > 0 ? strchr(names, c) : NULL;
    if (!found && c != 'u')
        return layby__wrong(r, "there is no such escape"), 0;
    r->at++;
    if (!found)
        return layby__read_code(r, to);
    *to = codes[found - names];
    return 1;
}

/* A string's text, from its opening quote on; NULL where it is malformed. */
static char *layby__read_text(layby__reader *r, size_t *size)
{
    if (!layby__take(r, '"'))
        return layby__wrong(r, "a string is missing"), NULL;
    const char *close = r->at;
    while (close < r->end && *close != '"')
        close += *close == '\\' && r->end - close > 1 ? 2 : 1;
    if (close >= r->end)
        return layby__wrong(r, "a string is not closed"), NULL;
    /* No escape is shorter than what it stands for. */
    char *text = layby_alloc(r->call, (size_t)(close - r->at) + 1);
    *size = 0;
    while (r->at < close) {
        size_t length = 1;
        if (layby__take(r, '\\')) {
            length = layby__read_escape(r, text + *size);
        } else if ((unsigned char)*r->at < 0x20) {
            return layby__wrong(r, "a control character is not escaped"), NULL;
        } else if ((length = layby__sequence(r->at, (size_t)(close - r->at))) == 0) {
            return layby__wrong(r, "not UTF-8"), NULL;
        } else {
            memcpy(text + *size, r->at, length);
            r->at += length;
        }
        if (length == 0)
            return NULL;
        *size += length;
    }
    r->at = close + 1;
    return text;
}

static layby_json *layby__read_string(layby__reader *r)
{
    size_t size;
    const char *text = layby__read_text(r, &size);
    if (!text)
        return NULL;
    layby_json *value = layby__value(r->call, LAYBY_STRING);
    value->as.string.text = text;
    value->as.string.size = size;
    return value;
}

/* One item of an array or a member of an object; false where it is malformed. */
static bool layby__read_item(layby__reader *r, layby_json *into)
{
    const char *name = NULL;
    layby__skip_space(r);
    if (into->type == LAYBY_OBJECT) {
        size_t size;
        name = layby__read_text(r, &size);
        if (!name)
            return false;
        if (strlen(name) != size)
            return layby__wrong(r, "a name has a NUL inside"), false;
        layby__skip_space(r);
        if (!layby__take(r, ':'))
            return layby__wrong(r, "`:` is missing"), false;
    }
    layby_json *item = layby__read_value(r);
    if (!item)
        return false;
    item->name = name;
    layby__append(into, item);
    return true;
}

static layby_json *layby__read_items(layby__reader *r, layby_type type, char close)
{
    layby_json *value = layby__value(r->call, type);
    r->at++;
    if (++r->depth > LAYBY_JSON_DEPTH)
        return layby__wrong(r, "nested too deep");
    layby__skip_space(r);
    if (!layby__take(r, close)) {
        do {
            if (!layby__read_item(r, value))
                return NULL;
            layby__skip_space(r);
        } while (layby__take(r, ','));
        if (!layby__take(r, close))
            return layby__wrong(r, close == ']' ? "`,` or `]` is missing" : "`,` or `}` is missing");
    }
    r->depth--;
    return value;
}

static layby_json *layby__read_word(layby__reader *r)
{
    static const char *const words[] = {"null", "false", "true"};
    for (size_t i = 0; i < 3; i++) {
        size_t size = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= size && memcmp(r->at, words[i], size) == 0) {
            r->at += size;
            return i == 0 ? layby__value(r->call, LAYBY_NULL) : layby__new_bool(r->call, i == 2);
        }
    }
    return layby__wrong(r, "a value is missing");
}

static layby_json *layby__read_value(layby__reader *r)
{
    layby__skip_space(r);
    int c = layby__peek(r);
    if (c == '{')
        return layby__read_items(r, LAYBY_OBJECT, '}');
    if (c == '[')
        return layby__read_items(r, LAYBY_ARRAY, ']');
    if (c == '"')
        return layby__read_string(r);
    if (c == '-' || (c >= '0' && c <= '9'))
        return layby__read_number(r);
    return layby__read_word(r);
}

const layby_json *layby_parse(layby_call *call, const char *text, size_t size, const char **error)
{
    layby__reader r = {.call = call, .start = text, .at = text, .end = text + size};
    layby_json *value = layby__read_value(&r);
    layby__skip_space(&r);
    if (value && r.at < r.end)
        value = layby__wrong(&r, "there is more after the value");
    if (error)
        *error = r.error;
    return value;
}

/* ---- JSON: writing ---------------------------------------------------------------------------------------- */

typedef struct layby__writer {
    layby_call *call;
    char *data;
    size_t size, capacity;
    unsigned depth;
} layby__writer;

static void layby__write(layby__writer *w, const char *text, size_t size)
{
    if (w->capacity - w->size <= size) {
        size_t capacity = (w->size + size + 64) * 2;
        char *more = layby_alloc(w->call, capacity);
        if (w->size)
            memcpy(more, w->data, w->size);
        w->data = more;
        w->capacity = capacity;
    }
    memcpy(w->data + w->size, text, size);
    w->size += size;
}

static void layby__write_text(layby__writer *w, const char *text, size_t size)
{
    layby__write(w, "\"", 1);
    for (size_t at = 0; at < size;) {
        size_t plain = at;
        while (plain < size && (unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
            plain++;
        layby__write(w, text + at, plain - at);
        if (plain < size) {
            static const char hex[] = "0123456789abcdef";
            unsigned char c = (unsigned char)text[plain++];
            if (c < 0x20)
                layby__write(w, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
            else
                layby__write(w, (char[]){'\\', (char)c}, 2);
        }
        at = plain;
    }
    layby__write(w, "\"", 1);
}

static void layby__write_number(layby__writer *w, double number)
{
    char text[40];
    int precision = 15;
    do
        snprintf(text, sizeof text, "%.*g", precision, number);
    while (++precision <= 17 && strtod(text, NULL) != number);
    layby__write(w, text, strlen(text));
    /* A number stays one, and does not come back as an integer. */
    if (!strpbrk(text, ".e"))
        layby__write(w, ".0", 2);
}

static void layby__write_value(layby__writer *w, const layby_json *value)
{
    char text[24];
    switch (value->type) {
    case LAYBY_NULL:
        layby__write(w, "null", 4);
        break;
    case LAYBY_BOOL:
        layby__write(w, value->as.boolean ? "true" : "false", value->as.boolean ? 4 : 5);
        break;
    case LAYBY_INTEGER:
        snprintf(text, sizeof text, "%" PRId64, value->as.integer);
        layby__write(w, text, strlen(text));
        break;
    case LAYBY_NUMBER:
        layby__write_number(w, value->as.number);
        break;
    case LAYBY_STRING:
        layby__write_text(w, value->as.string.text, value->as.string.size);
        break;
    case LAYBY_ARRAY:
    case LAYBY_OBJECT:
        /* Also what ends a value that has been put into itself. */
        if (++w->depth > LAYBY_JSON_DEPTH)
            layby__die("a JSON value is nested too deep");
        layby__write(w, value->type == LAYBY_ARRAY ? "[" : "{", 1);
        for (const layby_json *item = value->as.items.first; item; item = item->next) {
            if (item != value->as.items.first)
                layby__write(w, ",", 1);
            if (value->type == LAYBY_OBJECT) {
                layby__write_text(w, item->name, strlen(item->name));
                layby__write(w, ":", 1);
            }
            layby__write_value(w, item);
        }
        layby__write(w, value->type == LAYBY_ARRAY ? "]" : "}", 1);
        w->depth--;
        break;
    }
}

const char *layby_json_text(layby_call *call, const layby_json *value)
{
    layby__writer w = {.call = call};
    if (value)
        layby__write_value(&w, value);
    else
        layby__write(&w, "null", 4);
    layby__write(&w, "", 1);
    return w.data;
}

/* ---- What a call says ------------------------------------------------------------------------------------- */

static layby__abi_content *layby__piece(layby_call *call, uint8_t tag)
{
    if (call->count == call->capacity) {
        call->capacity = call->capacity ? call->capacity * 2 : 4;
        layby__abi_content *more = layby_alloc(call, call->capacity * sizeof *more);
        if (call->count)
            memcpy(more, call->contents, call->count * sizeof *more);
        call->contents = more;
    }
    layby__abi_content *piece = &call->contents[call->count++];
    piece->tag = tag;
    return piece;
}

layby_status layby_text_n(layby_call *call, const char *text, size_t size)
{
    layby__abi_string clean = layby__clean(call, text, size);
    layby__piece(call, LAYBY__TEXT)->as.text =
        (layby__abi_string){layby__copy(call, clean.data, clean.size), clean.size};
    return LAYBY_OK;
}

layby_status layby_text(layby_call *call, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const char *text = layby__vformat(call, format, list);
    va_end(list);
    layby__piece(call, LAYBY__TEXT)->as.text = layby__text(call, text);
    return LAYBY_OK;
}

static layby_status layby__media(layby_call *call, uint8_t tag, const char *mime_type, const void *data, size_t size)
{
    layby__abi_content *piece = layby__piece(call, tag);
    piece->as.media.data = (layby__abi_string){layby__copy(call, data, size), size};
    piece->as.media.mime_type = layby__text(call, layby_format(call, "%s", mime_type));
    return LAYBY_OK;
}

layby_status layby_image(layby_call *call, const char *mime_type, const void *data, size_t size)
{
    return layby__media(call, LAYBY__IMAGE, mime_type, data, size);
}

layby_status layby_audio(layby_call *call, const char *mime_type, const void *data, size_t size)
{
    return layby__media(call, LAYBY__AUDIO, mime_type, data, size);
}

/* A copy of a text that may be missing: what the caller handed over may change before the call ends. */
static layby__abi_option_string layby__kept(layby_call *call, const char *text)
{
    return layby__option(call, text ? layby__copy(call, text, strlen(text)) : NULL);
}

layby_status layby_link(layby_call *call, const char *uri, const char *name, const char *title,
                        const char *description, const char *mime_type)
{
    layby__abi_content *piece = layby__piece(call, LAYBY__LINK);
    piece->as.link.uri = layby__kept(call, uri).value;
    piece->as.link.name = layby__kept(call, name).value;
    piece->as.link.title = layby__kept(call, title);
    piece->as.link.description = layby__kept(call, description);
    piece->as.link.mime_type = layby__kept(call, mime_type);
    return LAYBY_OK;
}

static layby_status layby__embed(layby_call *call, const char *uri, const char *mime_type, bool blob,
                                 layby__abi_string contents)
{
    layby__abi_content *piece = layby__piece(call, LAYBY__EMBEDDED);
    piece->as.embedded.uri = layby__kept(call, uri).value;
    piece->as.embedded.mime_type = layby__kept(call, mime_type);
    piece->as.embedded.tag = blob;
    piece->as.embedded.contents = contents;
    return LAYBY_OK;
}

layby_status layby_embed_text(layby_call *call, const char *uri, const char *mime_type, const char *text)
{
    return layby__embed(call, uri, mime_type, false, layby__kept(call, text).value);
}

layby_status layby_embed_blob(layby_call *call, const char *uri, const char *mime_type, const void *data,
                              size_t size)
{
    return layby__embed(call, uri, mime_type, true, (layby__abi_string){layby__copy(call, data, size), size});
}

layby_status layby_content(layby_call *call, const layby_json *block)
{
    const char *text = layby_json_text(call, block);
    layby__piece(call, LAYBY__OTHER)->as.text = layby__text(call, text);
    return LAYBY_OK;
}

layby_status layby_structured(layby_call *call, const layby_json *value)
{
    call->structured = layby_json_text(call, value);
    return LAYBY_OK;
}

layby_status layby_meta(layby_call *call, const layby_json *value)
{
    call->meta = layby_json_text(call, value);
    return LAYBY_OK;
}

layby_status layby_fail(layby_call *call, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    call->failure = layby__vformat(call, format, list);
    va_end(list);
    return LAYBY_FAILED;
}

layby_status layby_protocol(layby_call *call, int32_t code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    call->refusal = layby__vformat(call, format, list);
    va_end(list);
    call->code = code;
    return LAYBY_PROTOCOL;
}

void layby_progress(layby_call *call, double done, double total, const char *message)
{
    layby__abi_string text = layby__text(call, message);
    layby__report_progress(done, total > 0, total, message != NULL, text.data, text.size);
}

bool layby_cancelled(layby_call *call)
{
    (void)call;
    return layby__check_cancelled();
}

layby_status layby_check(layby_call *call)
{
    return layby_cancelled(call) ? LAYBY_CANCELLED : LAYBY_OK;
}

void layby_log(layby_call *call, layby_level level, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    layby__abi_string line = layby__text(call, layby__vformat(call, format, list));
    va_end(list);
    layby__log(level <= LAYBY_DEBUG ? 0 : (int32_t)level - 1, line.data, line.size);
}

void layby_operator_log(layby_call *call, layby_level level, const char *context, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    layby__abi_string line = layby__text(call, layby__vformat(call, format, list));
    va_end(list);
    layby__abi_string about = layby__text(call, context);
    int32_t plain = level >= LAYBY_NOTICE ? (int32_t)level - 1 : (int32_t)level;
    layby__operator_log(plain, about.data, about.size, line.data, line.size);
}

/* Takes over what the host has allocated with cabi_realloc. */
static char *layby__adopt(layby_call *call, layby__abi_string text)
{
    char *copy = layby__copy(call, text.data, text.size);
    /* Nothing has been allocated for nothing. */
    if (text.size)
        free((void *)(uintptr_t)text.data);
    return copy;
}

const char *layby_config(layby_call *call, const char *key)
{
    return layby_config_n(call, key, strlen(key));
}

const char *layby_config_n(layby_call *call, const char *key, size_t size)
{
    layby__abi_value result = {0};
    layby__abi_string name = layby__clean(call, key, size);
    layby__config_get(name.data, name.size, &result);
    const char *value = !result.failed && !result.value.some ? NULL : layby__adopt(call, result.value.value);
    /* A Layby host holds all values in memory and cannot fail. */
    return result.failed ? NULL : value;
}

const layby_json *layby_config_all(layby_call *call)
{
    layby__abi_pairs result = {0};
    layby_json *all = layby_object(call);
    layby__config_get_all(&result);
    if (result.failed) {
        (void)layby__adopt(call, result.as.error.reason);
        return all;
    }
    for (size_t i = 0; i < result.as.pairs.count; i++) {
        const char *key = layby__adopt(call, result.as.pairs.data[i].key);
        layby_set_string(all, key, layby__adopt(call, result.as.pairs.data[i].value));
    }
    if (result.as.pairs.count)
        free(result.as.pairs.data);
    return all;
}

void layby_changed(layby_call *call, layby_change what)
{
    (void)call;
    layby__changed((int32_t)what, NULL, 0);
}

void layby_changed_contents(layby_call *call, const char *uri)
{
    layby__abi_string text = layby__text(call, uri);
    layby__changed(3, text.data, text.size);
}

/* ---- What a call asks ------------------------------------------------------------------------------------- */

bool layby_supports(layby_call *call, layby_kind kind)
{
    (void)call;
    return layby__supports((int32_t)kind);
}

static layby__abi_request layby__request(layby_call *call, const layby_question *question)
{
    layby__abi_request request = {.key = layby__text(call, question->key), .tag = (uint8_t)question->kind};
    switch (question->kind) {
    case LAYBY_FORM:
        request.as.form.message = layby__text(call, question->message);
        request.as.form.schema = layby__text(call, question->schema);
        break;
    case LAYBY_URL:
        request.as.url.message = layby__text(call, question->message);
        request.as.url.url = layby__text(call, question->url);
        break;
    case LAYBY_SAMPLING:
        request.as.sampling = layby__text(call, question->params);
        break;
    case LAYBY_ROOTS:
        break;
    }
    return request;
}

/* What is wrong where a string has a NUL inside, and the tool does not read it by its size: else NULL. */
static const char *layby__nul_inside(layby_call *call, const layby_json *value)
{
    const char *wrong = NULL;
    if (call->nul_in_strings)
        return NULL;
    if (value->type == LAYBY_STRING && memchr(value->as.string.text, 0, value->as.string.size))
        return layby_format(call, "`%s` has a NUL (U+0000) inside", value->name ? value->name : "a string");
    for (const layby_json *item = layby_first(value); item && !wrong; item = layby_next(item)) {
        wrong = layby__nul_inside(call, item);
        /* An item of a list has no name of its own. */
        if (wrong && !item->name && item->type == LAYBY_STRING && value->name)
            wrong = layby_format(call, "an item of `%s` has a NUL (U+0000) inside", value->name);
    }
    return wrong;
}

static layby_status layby__not_answered(layby_call *call, const layby__abi_answers *result)
{
    switch (result->as.error.tag) {
    case LAYBY__ASK_UNSUPPORTED:
        return LAYBY_UNSUPPORTED;
    case LAYBY__ASK_TIMED_OUT:
        return LAYBY_TIMED_OUT;
    case LAYBY__ASK_INVALID:
        return layby_fail(call, "the question is malformed: %s", layby__adopt(call, result->as.error.reason));
    default:
        return LAYBY_CANCELLED;
    }
}

layby_status layby_ask(layby_call *call, const layby_question *questions, size_t count, layby_answer *answers)
{
    layby__abi_answers result = {0};
    layby__abi_request *requests = layby_alloc(call, count * sizeof *requests);
    for (size_t i = 0; i < count; i++)
        requests[i] = layby__request(call, &questions[i]);
    /* What was printed must not come after the answer. */
    fflush(NULL);
    layby__request_input(requests, count, &result);
    if (result.failed)
        return layby__not_answered(call, &result);
    size_t given = result.as.answers.count;
    layby_answer *read = layby_alloc(call, given * sizeof *read);
    const char *error = NULL;
    for (size_t i = 0; i < given; i++) {
        const layby__abi_answer *answer = &result.as.answers.data[i];
        read[i].outcome = (layby_outcome)answer->tag;
        if (answer->tag != LAYBY_ACCEPTED)
            continue;
        const char *text = layby__adopt(call, answer->content), *wrong;
        read[i].content = layby_parse(call, text, answer->content.size, &wrong);
        if (!error)
            error = wrong ? wrong : layby__nul_inside(call, read[i].content);
    }
    if (given)
        free(result.as.answers.data);
    if (given != count)
        return layby_fail(call, "%zu answers came to %zu questions", given, count);
    if (error)
        return layby_fail(call, "the answer is malformed: %s", error);
    if (count)
        memcpy(answers, read, count * sizeof *read);
    return LAYBY_OK;
}

layby_status layby_ask_form(layby_call *call, const char *key, const char *message, const char *schema,
                            layby_answer *answer)
{
    layby_question question = {.kind = LAYBY_FORM, .key = key, .message = message, .schema = schema};
    return layby_ask(call, &question, 1, answer);
}

layby_status layby_ask_url(layby_call *call, const char *key, const char *message, const char *url,
                           layby_answer *answer)
{
    layby_question question = {.kind = LAYBY_URL, .key = key, .message = message, .url = url};
    return layby_ask(call, &question, 1, answer);
}

layby_status layby_ask_sampling(layby_call *call, const char *key, const char *params, layby_answer *answer)
{
    layby_question question = {.kind = LAYBY_SAMPLING, .key = key, .params = params};
    return layby_ask(call, &question, 1, answer);
}

layby_status layby_ask_roots(layby_call *call, const char *key, layby_answer *answer)
{
    layby_question question = {.kind = LAYBY_ROOTS, .key = key};
    return layby_ask(call, &question, 1, answer);
}

/* ---- What the host calls ---------------------------------------------------------------------------------- */

/* By this the host, and WASI's adapter, get memory in the plugin. */
#ifdef __wasm__
LAYBY__EXPORT("cabi_realloc")
#else
static
#endif
void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size)
{
    (void)old_size;
    /* malloc aligns for any type, and nothing in the interface wants more. */
    if (size == 0)
        return (void *)align;
    void *piece = realloc(old, size);
    if (!piece)
        layby__die("out of memory");
    return piece;
}

static layby__abi_option_bool layby__hint(layby_hint hint)
{
    return (layby__abi_option_bool){hint != LAYBY_UNSAID, hint == LAYBY_YES};
}

static layby__abi_tool layby__definition(layby_call *call, const layby_tool *tool)
{
    const char *no_arguments = LAYBY_JSON({"type": "object", "additionalProperties": false});
    return (layby__abi_tool){
        .name = layby__text(call, tool->name),
        .title = layby__option(call, tool->title),
        .description = layby__text(call, tool->description),
        .input_schema = layby__text(call, tool->input_schema ? tool->input_schema : no_arguments),
        .output_schema = layby__option(call, tool->output_schema),
        .read_only = layby__hint(tool->read_only),
        .destructive = layby__hint(tool->destructive),
        .idempotent = layby__hint(tool->idempotent),
        .open_world = layby__hint(tool->open_world),
        .extra = layby__option(call, tool->extra),
    };
}

LAYBY__EXPORT(LAYBY__TOOLS "#list-tools")
layby__abi_tools *layby__list_tools(void)
{
    layby_call *call = &layby__now;
    size_t count = 0;
    while (layby_tools[count])
        count++;
    layby__abi_tool *list = layby_alloc(call, count * sizeof *list);
    for (size_t i = 0; i < count; i++)
        list[i] = layby__definition(call, layby_tools[i]);
    call->tools = (layby__abi_tools){list, count};
    return &call->tools;
}

LAYBY__EXPORT("cabi_post_" LAYBY__TOOLS "#list-tools")
void layby__list_tools_done(layby__abi_tools *list)
{
    (void)list;
    layby__end(&layby__now);
}

static layby_status layby__run(layby_call *call, const char *name, const char *text, size_t size)
{
    for (size_t i = 0; layby_tools[i]; i++) {
        if (strcmp(layby_tools[i]->name, name) != 0)
            continue;
        const char *error;
        const layby_json *arguments = layby_parse(call, text, size, &error);
        call->nul_in_strings = layby_tools[i]->nul_in_strings;
        if (arguments)
            error = layby__nul_inside(call, arguments);
        if (error)
            return layby_fail(call, "the arguments do not fit: %s", error);
        return layby_tools[i]->run(call, arguments);
    }
    return layby_protocol(call, -32602, "this plugin has no tool `%s`", name);
}

/* The result as the host takes it, of what the tool has said. */
static layby__abi_result layby__result(layby_call *call, bool ok)
{
    if (!ok && call->failure) {
        call->count = 0;
        call->structured = NULL;
        layby__piece(call, LAYBY__TEXT)->as.text = layby__text(call, call->failure);
    }
    if (call->structured && call->count == 0)
        layby__piece(call, LAYBY__TEXT)->as.text = layby__text(call, call->structured);
    return (layby__abi_result){
        .data = call->contents,
        .count = call->count,
        .structured = layby__option(call, call->structured),
        .meta = layby__option(call, call->meta),
    };
}

static void layby__finish(layby_call *call, layby_status status)
{
    layby__abi_outcome *outcome = &call->outcome;
    outcome->failed = status != LAYBY_OK;
    switch (status) {
    case LAYBY_OK:
        outcome->as.result = layby__result(call, true);
        break;
    case LAYBY_TIMED_OUT:
        call->failure = "no answer came in time";
        /* fall through */
    case LAYBY_FAILED:
        outcome->as.error.tag = LAYBY__FAILED;
        outcome->as.error.as.failed = layby__result(call, false);
        break;
    case LAYBY_UNSUPPORTED:
        outcome->as.error.tag = LAYBY__UNSUPPORTED;
        break;
    case LAYBY_CANCELLED:
        outcome->as.error.tag = LAYBY__CANCELLED;
        break;
    case LAYBY_PROTOCOL:
    default:
        outcome->as.error.tag = LAYBY__PROTOCOL;
        outcome->as.error.as.protocol.code = call->refusal ? call->code : -32603;
        outcome->as.error.as.protocol.message =
            layby__text(call, call->refusal ? call->refusal : "the tool ended with no reason");
        break;
    }
}

LAYBY__EXPORT(LAYBY__TOOLS "#call-tool")
layby__abi_outcome *layby__call_tool(char *name, size_t name_size, char *arguments, size_t arguments_size)
{
    layby_call *call = &layby__now;
    const char *tool = layby__adopt(call, (layby__abi_string){name, name_size});
    const char *text = layby__adopt(call, (layby__abi_string){arguments, arguments_size});
    layby__finish(call, layby__run(call, tool, text, arguments_size));
    /* Nothing else writes what is still in the C library's buffers: the instance never exits. */
    fflush(NULL);
    return &call->outcome;
}

LAYBY__EXPORT("cabi_post_" LAYBY__TOOLS "#call-tool")
void layby__call_tool_done(layby__abi_outcome *outcome)
{
    (void)outcome;
    layby__end(&layby__now);
}

/* ---- The stand-in for the host ---------------------------------------------------------------------------- */

#ifndef __wasm__

typedef struct layby__pair {
    const char *key, *value;
    struct layby__pair *next;
} layby__pair;

/* What the host of a test knows; all of it is in the memory of `arena`. */
static struct {
    layby_call arena;
    layby_json *answers;
    const layby_json *next_answer;
    layby__pair *config;
    bool cancels, running;
    size_t checks;
    layby__writer said;
} layby__host;

void layby_test_unexpected(const char *file, int line, const char *what, const char *actual, const char *expected)
{
    fprintf(stderr, "%s:%d: not as expected: %s\n", file, line, what);
    if (expected || actual)
        fprintf(stderr, "  expected: %s\n  actual:   %s\n", expected ? expected : "NULL", actual ? actual : "NULL");
    exit(1);
}

void layby_test_compare(const char *file, int line, const char *what, const char *actual, const char *expected)
{
    bool equal = actual && expected ? strcmp(actual, expected) == 0 : actual == expected;
    if (!equal)
        layby_test_unexpected(file, line, what, actual, expected);
}

static void layby__test_end(void)
{
    layby__end(&layby__now);
    layby__end(&layby__host.arena);
    memset(&layby__host, 0, sizeof layby__host);
}

layby_call *layby_test_begin(void)
{
    static bool registered;
    layby__test_end();
    if (!registered)
        atexit(layby__test_end);
    registered = true;
    layby__host.running = true;
    layby__host.answers = layby_array(&layby__host.arena);
    layby__host.said.call = &layby__host.arena;
    return &layby__now;
}

/* A test that has not begun begins with what it does first. */
static layby_call *layby__arena(void)
{
    if (!layby__host.running)
        layby_test_begin();
    return &layby__host.arena;
}

static void layby__say(const char *format, ...) LAYBY_PRINTF(1, 2);
static void layby__say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const char *line = layby__vformat(layby__arena(), format, list);
    va_end(list);
    layby__write(&layby__host.said, line, strlen(line));
}

const char *layby_test_said(void)
{
    layby__arena();
    layby__write(&layby__host.said, "", 1);
    layby__host.said.size--;
    return layby__host.said.data;
}

void layby_test_answer(layby_outcome outcome, const char *json)
{
    layby_json *answer = layby_object(layby__arena());
    layby_set_integer(answer, "outcome", (int64_t)outcome);
    layby_set_string(answer, "content", json ? json : "{}");
    layby_add(layby__host.answers, answer);
    if (!layby__host.next_answer)
        layby__host.next_answer = answer;
}

void layby_test_cancel_after(size_t checks)
{
    layby__arena();
    layby__host.cancels = true;
    layby__host.checks = checks;
}

void layby_test_config(const char *key, const char *value)
{
    layby_call *arena = layby__arena();
    layby__pair *pair = layby_alloc(arena, sizeof *pair);
    pair->key = layby__copy(arena, key, strlen(key));
    pair->value = layby__copy(arena, value, strlen(value));
    pair->next = layby__host.config;
    layby__host.config = pair;
}

/* As the host hands text over: in memory that cabi_realloc gave. */
static layby__abi_string layby__handed(const char *text)
{
    size_t size = strlen(text);
    char *copy = cabi_realloc(NULL, 0, 1, size);
    if (size)
        memcpy(copy, text, size);
    return (layby__abi_string){copy, size};
}

/* The host would not load a plugin with these. */
static void layby__check_tool(const layby_tool *tool)
{
    const char *texts[] = {tool->input_schema, tool->output_schema, tool->extra}, *error;
    for (size_t i = 0; i < 3; i++) {
        if (!texts[i])
            continue;
        const layby_json *value = layby_parse(layby__arena(), texts[i], strlen(texts[i]), &error);
        if (!value || value->type != LAYBY_OBJECT) {
            fprintf(stderr, "layby: the tool `%s` has a schema that is no JSON object: %s\n", tool->name,
                    error ? error : texts[i]);
            exit(1);
        }
    }
}

layby_test_result layby_test_call(const char *tool, const char *arguments)
{
    layby__arena();
    for (size_t i = 0; layby_tools[i]; i++)
        layby__check_tool(layby_tools[i]);
    /* Both may be of the call that ends here. */
    layby__abi_string name = layby__handed(tool), text = layby__handed(arguments);
    layby__end(&layby__now);
    const layby__abi_outcome *outcome =
        layby__call_tool((char *)(uintptr_t)name.data, name.size, (char *)(uintptr_t)text.data, text.size);
    static const layby_status statuses[] = {LAYBY_FAILED, LAYBY_PROTOCOL, LAYBY_UNSUPPORTED, LAYBY_CANCELLED};
    layby_test_result result = {.status = LAYBY_OK, .text = ""};
    if (outcome->failed)
        result.status = statuses[outcome->as.error.tag];
    if (result.status == LAYBY_PROTOCOL) {
        result.text = outcome->as.error.as.protocol.message.data;
        result.code = outcome->as.error.as.protocol.code;
    }
    if (result.status != LAYBY_OK && result.status != LAYBY_FAILED)
        return result;
    const layby__abi_result *given = outcome->failed ? &outcome->as.error.as.failed : &outcome->as.result;
    layby__writer texts = {.call = &layby__now};
    for (size_t i = 0; i < given->count; i++) {
        if (given->data[i].tag != LAYBY__TEXT)
            continue;
        if (texts.size)
            layby__write(&texts, "\n", 1);
        layby__write(&texts, given->data[i].as.text.data, given->data[i].as.text.size);
    }
    layby__write(&texts, "", 1);
    result.text = texts.data;
    result.contents = given->count;
    if (given->structured.some) {
        layby__abi_string structured = given->structured.value;
        result.structured = layby__copy(&layby__now, structured.data, structured.size);
        result.value = layby_parse(&layby__now, structured.data, structured.size, NULL);
    }
    return result;
}

void layby__report_progress(double done, int32_t has_total, double total, int32_t has_message, const char *message,
                            size_t size)
{
    layby__say("progress %.15g", done);
    if (has_total)
        layby__say("/%.15g", total);
    layby__say("%s%.*s\n", has_message ? " " : "", (int)size, message);
}

int32_t layby__check_cancelled(void)
{
    if (!layby__host.cancels)
        return false;
    if (layby__host.checks == 0)
        return true;
    layby__host.checks--;
    return false;
}

void layby__log(int32_t level, const char *message, size_t size)
{
    static const char *const names[] = {"debug", "info", "notice", "warning", "error", "critical"};
    layby__say("log %s: %.*s\n", names[level], (int)size, message);
}

int32_t layby__supports(int32_t kind)
{
    (void)kind;
    return layby__host.next_answer != NULL;
}

void layby__changed(int32_t what, const char *uri, size_t size)
{
    static const char *const names[] = {"tools", "prompts", "resources", ""};
    layby__say("changed %s%.*s\n", names[what], (int)size, uri ? uri : "");
}

static void layby__say_question(const layby__abi_request *request)
{
    layby__say("ask %.*s: ", (int)request->key.size, request->key.data);
    /* A form and a URL have the same layout. */
    layby__abi_string message = request->as.form.message, more = request->as.form.schema;
    switch (request->tag) {
    case LAYBY_FORM:
    case LAYBY_URL:
        layby__say("%s %.*s %.*s\n", request->tag == LAYBY_FORM ? "form" : "url", (int)message.size, message.data,
                   (int)more.size, more.data);
        break;
    case LAYBY_SAMPLING:
        layby__say("sampling %.*s\n", (int)request->as.sampling.size, request->as.sampling.data);
        break;
    default:
        layby__say("roots\n");
        break;
    }
}

void layby__request_input(const layby__abi_request *requests, size_t count, layby__abi_answers *result)
{
    size_t there = 0;
    for (const layby_json *answer = layby__host.next_answer; answer; answer = answer->next)
        there++;
    for (size_t i = 0; i < count; i++)
        layby__say_question(&requests[i]);
    if (there < count) {
        result->failed = true;
        result->as.error.tag = LAYBY__ASK_UNSUPPORTED;
        return;
    }
    result->failed = false;
    result->as.answers.count = count;
    result->as.answers.data = cabi_realloc(NULL, 0, sizeof(void *), count * sizeof(layby__abi_answer));
    for (size_t i = 0; i < count; i++) {
        int64_t outcome = LAYBY_DISMISSED;
        layby_get_integer(layby__host.next_answer, "outcome", &outcome);
        const char *content = layby_get_string(layby__host.next_answer, "content");
        layby__abi_string none = {NULL, 0};
        result->as.answers.data[i] = (layby__abi_answer){
            (uint8_t)outcome, outcome == LAYBY_ACCEPTED ? layby__handed(content) : none};
        layby__host.next_answer = layby__host.next_answer->next;
    }
}

void layby__config_get(const char *key, size_t size, layby__abi_value *result)
{
    for (const layby__pair *pair = layby__host.config; pair; pair = pair->next) {
        if (strlen(pair->key) == size && memcmp(pair->key, key, size) == 0) {
            result->value = (layby__abi_option_string){true, layby__handed(pair->value)};
            return;
        }
    }
}

void layby__config_get_all(layby__abi_pairs *result)
{
    size_t count = 0;
    for (const layby__pair *pair = layby__host.config; pair; pair = pair->next)
        count++;
    result->as.pairs.count = count;
    result->as.pairs.data = cabi_realloc(NULL, 0, sizeof(void *), count * sizeof(layby__abi_pair));
    for (const layby__pair *pair = layby__host.config; pair; pair = pair->next)
        result->as.pairs.data[--count] = (layby__abi_pair){layby__handed(pair->key), layby__handed(pair->value)};
}

void layby__operator_log(int32_t level, const char *context, size_t context_size, const char *message, size_t size)
{
    static const char *const names[] = {"trace", "debug", "info", "warn", "error", "critical"};
    layby__say("operator %s %.*s: %.*s\n", names[level], (int)context_size, context, (int)size, message);
}

#endif /* __wasm__ */
#endif /* LAYBY_IMPLEMENTATION */
