/* Tests of layby.h, outside the sandbox. */
#define LAYBY_IMPLEMENTATION
#include "layby.h"

/* ---- Tools that the tests call ---- */

static layby_status all_results(layby_call *call, const layby_json *arguments)
{
    (void)arguments;
    layby_text(call, "%d and %s", 1, "two");
    layby_text_n(call, "bad \xFF\xC3 end", 10);
    layby_image(call, "image/png", "\x89PNG", 4);
    layby_audio(call, "audio/wav", "RIFF", 4);
    layby_link(call, "file:///a", "a", NULL, "A file", NULL);
    layby_embed_text(call, "file:///b", "text/plain", "b");
    layby_embed_blob(call, "file:///c", NULL, "\0\1", 2);
    layby_json *block = layby_object(call), *meta = layby_object(call);
    layby_set_string(block, "type", "text");
    layby_set_string(block, "text", "more");
    layby_content(call, block);
    layby_set_bool(meta, "seen", true);
    return layby_meta(call, meta);
}
static const layby_tool all_results_tool = {
    .name = "all_results",
    .title = "All results",
    .description = "Gives one of each.",
    .read_only = LAYBY_YES,
    .destructive = LAYBY_NO,
    .extra = LAYBY_JSON({"_meta": {"a": 1}}),
    .run = all_results,
};

static layby_status structured(layby_call *call, const layby_json *arguments)
{
    layby_json *value = layby_object(call);
    layby_set(value, "given", arguments);
    return layby_structured(call, value);
}
static const layby_tool structured_tool = {
    .name = "structured",
    .description = "Gives its arguments back.",
    .input_schema = LAYBY_JSON({"type": "object"}),
    .output_schema = LAYBY_JSON({"type": "object"}),
    .nul_in_strings = true,
    .run = structured,
};

/* Ends as its argument `how` says. */
static layby_status end(layby_call *call, const layby_json *arguments)
{
    int64_t how = 0;
    layby_get_integer(arguments, "how", &how);
    layby_text(call, "something before");
    switch (how) {
    case 1:
        return layby_fail(call, "it failed: %d%%", 100);
    case 2:
        return LAYBY_FAILED;
    case 3:
        return layby_protocol(call, -32602, "no such %s", "thing");
    case 4:
        return LAYBY_UNSUPPORTED;
    case 5:
        return LAYBY_CANCELLED;
    case 6:
        return LAYBY_TIMED_OUT;
    case 7:
        return LAYBY_PROTOCOL;
    case 8:
        (void)layby_fail(call, "a failure that is dealt with");
        return LAYBY_OK;
    default:
        return (layby_status)how;
    }
}
static const layby_tool end_tool = {
    .name = "end",
    .description = "Ends in many ways.",
    .input_schema = LAYBY_JSON({"type": "object"}),
    .run = end,
};

LAYBY_TOOLS(&all_results_tool, &structured_tool, &end_tool);

/* ---- The tests ---- */

static void tools_are_listed_as_they_are(void)
{
    layby_test_begin();
    const layby__abi_tools *list = layby__list_tools();
    LAYBY_EXPECT(list->count == 3);
    const layby__abi_tool *first = &list->data[0];
    LAYBY_EXPECT(first->name.size == 11 && memcmp(first->name.data, "all_results", 11) == 0);
    LAYBY_EXPECT(first->title.some && !first->output_schema.some && first->extra.some);
    LAYBY_EXPECT(first->read_only.some && first->read_only.value);
    LAYBY_EXPECT(first->destructive.some && !first->destructive.value && !first->idempotent.some);
    LAYBY_EXPECT_STRING(first->input_schema.data, "{\"type\": \"object\", \"additionalProperties\": false}");
    LAYBY_EXPECT_STRING(first->extra.value.data, "{\"_meta\": {\"a\": 1}}");
    LAYBY_EXPECT(list->data[1].output_schema.some && !list->data[1].title.some);
}

static void every_result_arrives(void)
{
    layby_test_begin();
    layby_test_result result = layby_test_call("all_results", "{}");
    LAYBY_EXPECT(result.status == LAYBY_OK && result.contents == 8);
    LAYBY_EXPECT_STRING(result.text, "1 and two\nbad \xEF\xBF\xBD\xEF\xBF\xBD end");
    const layby__abi_result *given = &layby__now.outcome.as.result;
    LAYBY_EXPECT(given->data[2].tag == LAYBY__IMAGE && given->data[2].as.media.data.size == 4);
    LAYBY_EXPECT_STRING(given->data[3].as.media.mime_type.data, "audio/wav");
    LAYBY_EXPECT(!given->data[4].as.link.title.some && given->data[4].as.link.description.some);
    LAYBY_EXPECT(given->data[5].as.embedded.tag == 0 && given->data[6].as.embedded.tag == 1);
    LAYBY_EXPECT(given->data[6].as.embedded.contents.size == 2);
    LAYBY_EXPECT_STRING(given->data[7].as.text.data, "{\"type\":\"text\",\"text\":\"more\"}");
    LAYBY_EXPECT(given->meta.some && !given->structured.some);
    LAYBY_EXPECT_STRING(given->meta.value.data, "{\"seen\":true}");
}

static void a_structured_result_is_also_text(void)
{
    layby_test_begin();
    layby_test_result result = layby_test_call("structured", " {\"a\" : [1, 2.50, null]} ");
    LAYBY_EXPECT_STRING(result.structured, "{\"given\":{\"a\":[1,2.5,null]}}");
    LAYBY_EXPECT_STRING(result.text, result.structured);
    LAYBY_EXPECT(layby_count(layby_get(layby_get(result.value, "given"), "a")) == 3);
}

static layby_test_result ended(int how)
{
    char arguments[32];
    snprintf(arguments, sizeof arguments, "{\"how\": %d}", how);
    layby_test_begin();
    return layby_test_call("end", arguments);
}

static void every_way_to_end_is_told(void)
{
    static const struct {
        layby_status status;
        const char *text;
        int32_t code;
    } expected[] = {
        {LAYBY_OK, "something before", 0},     {LAYBY_FAILED, "it failed: 100%", 0},
        {LAYBY_FAILED, "something before", 0}, {LAYBY_PROTOCOL, "no such thing", -32602},
        {LAYBY_UNSUPPORTED, "", 0},            {LAYBY_CANCELLED, "", 0},
        {LAYBY_FAILED, "no answer came in time", 0}, {LAYBY_PROTOCOL, "the tool ended with no reason", -32603},
        {LAYBY_OK, "something before", 0},     {LAYBY_PROTOCOL, "the tool ended with no reason", -32603},
    };
    for (int how = 0; how < 10; how++) {
        layby_test_result result = ended(how);
        LAYBY_EXPECT(result.status == expected[how].status && result.code == expected[how].code);
        LAYBY_EXPECT_STRING(result.text, expected[how].text);
    }
    layby_test_result unknown = layby_test_call("no_such", "{}");
    LAYBY_EXPECT(unknown.status == LAYBY_PROTOCOL && unknown.code == -32602);
    LAYBY_EXPECT_STRING(unknown.text, "this plugin has no tool `no_such`");
    LAYBY_EXPECT_STRING(layby_test_call("end", "{\"a\" 1}").text,
                        "the arguments do not fit: byte 5: `:` is missing");
}

static void what_is_said_reaches_the_host(void)
{
    layby_call *call = layby_test_begin();
    layby_progress(call, 1, 0, NULL);
    layby_progress(call, 2.5, 5, "half");
    layby_log(call, LAYBY_TRACE, "%s", "a");
    layby_log(call, LAYBY_CRITICAL, "b \xFF");
    layby_operator_log(call, LAYBY_TRACE, "", "c");
    layby_operator_log(call, LAYBY_NOTICE, "about", "d");
    layby_operator_log(call, LAYBY_CRITICAL, "about", "e");
    layby_changed(call, LAYBY_CHANGED_TOOLS);
    layby_changed_contents(call, "notes:///a");
    LAYBY_EXPECT_STRING(layby_test_said(), "progress 1\nprogress 2.5/5 half\nlog debug: a\n"
                                           "log critical: b \xEF\xBF\xBD\noperator trace : c\n"
                                           "operator info about: d\noperator critical about: e\n"
                                           "changed tools\nchanged notes:///a\n");
    LAYBY_EXPECT(layby_check(call) == LAYBY_OK);
    layby_test_cancel_after(1);
    LAYBY_EXPECT(!layby_cancelled(call) && layby_cancelled(call) && layby_check(call) == LAYBY_CANCELLED);
    LAYBY_EXPECT(layby_config(call, "a") == NULL);
    layby_test_config("a", "1");
    layby_test_config("b", "");
    LAYBY_EXPECT_STRING(layby_config(call, "a"), "1");
    LAYBY_EXPECT_STRING(layby_config(call, "b"), "");
    LAYBY_EXPECT_STRING(layby_json_text(call, layby_config_all(call)), "{\"a\":\"1\",\"b\":\"\"}");
}

static void questions_are_answered_in_order(void)
{
    layby_call *call = layby_test_begin();
    layby_answer answers[4] = {0};
    LAYBY_EXPECT(!layby_supports(call, LAYBY_FORM));
    LAYBY_EXPECT(layby_ask_roots(call, "r", answers) == LAYBY_UNSUPPORTED);
    layby_test_answer(LAYBY_ACCEPTED, "{\"n\": 1}");
    layby_test_answer(LAYBY_DECLINED, NULL);
    layby_test_answer(LAYBY_DISMISSED, NULL);
    layby_test_answer(LAYBY_ACCEPTED, NULL);
    LAYBY_EXPECT(layby_supports(call, LAYBY_FORM));
    const layby_question questions[] = {
        {.kind = LAYBY_FORM, .key = "f", .message = "F?", .schema = "{}"},
        {.kind = LAYBY_URL, .key = "u", .message = "U?", .url = "https://example.com"},
        {.kind = LAYBY_SAMPLING, .key = "s", .params = "{\"messages\":[]}"},
        {.kind = LAYBY_ROOTS, .key = "r"},
    };
    LAYBY_EXPECT(layby_ask(call, questions, 4, answers) == LAYBY_OK);
    int64_t n = 0;
    LAYBY_EXPECT(answers[0].outcome == LAYBY_ACCEPTED && layby_get_integer(answers[0].content, "n", &n) && n == 1);
    LAYBY_EXPECT(answers[1].outcome == LAYBY_DECLINED && !answers[1].content);
    LAYBY_EXPECT(answers[2].outcome == LAYBY_DISMISSED && answers[3].outcome == LAYBY_ACCEPTED);
    LAYBY_EXPECT_STRING(layby_test_said(), "ask r: roots\nask f: form F? {}\nask u: url U? https://example.com\n"
                                           "ask s: sampling {\"messages\":[]}\nask r: roots\n");
    layby_test_answer(LAYBY_ACCEPTED, "{");
    LAYBY_EXPECT(layby_ask_form(call, "f", "F?", "{}", answers) == LAYBY_FAILED);
    LAYBY_EXPECT(layby_ask(call, questions, 0, NULL) == LAYBY_OK);
}

static void memory_is_aligned_and_kept(void)
{
    layby_call *call = layby_test_begin();
    char *pieces[200];
    for (size_t i = 0; i < 200; i++) {
        pieces[i] = layby_alloc(call, i * i);
        LAYBY_EXPECT((uintptr_t)pieces[i] % _Alignof(max_align_t) == 0);
        for (size_t at = 0; at < i * i; at++)
            LAYBY_EXPECT(pieces[i][at] == 0);
        memset(pieces[i], (int)i, i * i);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t at = 0; at < i * i; at++)
            LAYBY_EXPECT((unsigned char)pieces[i][at] == i);
    char *text = layby_format(call, "%01000d", 7);
    LAYBY_EXPECT(strlen(text) == 1000 && text[999] == '7');
}

static const char *reread(layby_call *call, const char *text, size_t size)
{
    const char *error = NULL;
    const layby_json *value = layby_parse(call, text, size, &error);
    LAYBY_EXPECT(!value == !!error);
    return value ? layby_json_text(call, value) : error;
}

static void json_is_read_strictly(void)
{
    static const char *const cases[][2] = {
        {" [ ] ", "[]"},
        {"{\"a\":{},\"b\":[[]]}", "{\"a\":{},\"b\":[[]]}"},
        {"[null,true,false]", "[null,true,false]"},
        {"[0,-1,9223372036854775807,-9223372036854775808]", "[0,-1,9223372036854775807,-9223372036854775808]"},
        {"[9223372036854775808,-0,1.0,1e2]", "[9.223372036854776e+18,-0.0,1.0,100.0]"},
        {"[0.1,1e-7,1.7976931348623157e308,5e-324]", "[0.1,1e-07,1.7976931348623157e+308,4.94065645841247e-324]"},
        {"\"\\u00fc\\ud834\\udd1e\\n\\/\\u0000\\u001f\\\"\\\\\"", "\"\xC3\xBC\xF0\x9D\x84\x9E\\u000a/\\u0000\\u001f\\\"\\\\\""},
        {"{\"a\":1,\"a\":2}", "{\"a\":1,\"a\":2}"},
        {"", "byte 0: a value is missing"},
        {"nul", "byte 0: a value is missing"},
        {"[1,]", "byte 3: a value is missing"},
        {"[1 2]", "byte 3: `,` or `]` is missing"},
        {"{\"a\":1,}", "byte 7: a string is missing"},
        {"{\"a\" 1}", "byte 5: `:` is missing"},
        {"{a:1}", "byte 1: a string is missing"},
        {"[1", "byte 2: `,` or `]` is missing"},
        {"01", "byte 1: there is more after the value"},
        {"-", "byte 1: a digit is missing"},
        {"1.", "byte 2: a digit is missing"},
        {"1e", "byte 2: a digit is missing"},
        {"+1", "byte 0: a value is missing"},
        {"1e999", "byte 5: a number is too large"},
        {"\"", "byte 1: a string is not closed"},
        {"\"\\", "byte 1: a string is not closed"},
        {"\"\\\"", "byte 1: a string is not closed"},
        {"\"\\x\"", "byte 2: there is no such escape"},
        {"\"\\u12\"", "byte 5: four hexadecimal digits are missing"},
        {"\"\\ud800\"", "byte 7: a surrogate has no second half"},
        {"\"\\udc00\"", "byte 7: a surrogate has no first half"},
        {"\"\t\"", "byte 1: a control character is not escaped"},
        {"\"\xFF\"", "byte 1: not UTF-8"},
        {"\"\xED\xA0\x80\"", "byte 1: not UTF-8"},
        {"\"\xC0\x80\"", "byte 1: not UTF-8"},
        {"{\"\\u0000\":1}", "byte 9: a name has a NUL inside"},
        {"1 2", "byte 2: there is more after the value"},
    };
    layby_call *call = layby_test_begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        LAYBY_EXPECT_STRING(reread(call, cases[i][0], strlen(cases[i][0])), cases[i][1]);
    char deep[400] = "";
    memset(deep, '[', LAYBY_JSON_DEPTH);
    memset(deep + LAYBY_JSON_DEPTH, ']', LAYBY_JSON_DEPTH);
    LAYBY_EXPECT_STRING(reread(call, deep, 2 * LAYBY_JSON_DEPTH), deep);
    memset(deep, '[', sizeof deep);
    LAYBY_EXPECT_STRING(reread(call, deep, sizeof deep), "byte 129: nested too deep");
}

static void values_are_asked_without_ceremony(void)
{
    layby_call *call = layby_test_begin();
    static const char text[] = "{\"s\":\"a\\u0000b\",\"i\":-5,\"n\":0.5,\"b\":true,\"l\":[1,2],\"z\":null}";
    const layby_json *value = layby_parse(call, text, strlen(text), NULL);
    int64_t integer = 7;
    double number = 7;
    bool boolean = false;
    static const struct {
        const char *json;
        bool taken;
        int64_t value;
    } wholes[] = {
        {"1.0", true, 1},          {"1e1", true, 10},
        {"-0.0", true, 0},         {"9007199254740992.0", true, INT64_C(1) << 53},
        {"1.5", false, 0},         {"9007199254740994.0", false, 0},
        {"1e300", false, 0},       {"-1e300", false, 0},
    };
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        int64_t whole = 7;
        bool taken = layby_integer(layby_parse(call, wholes[i].json, strlen(wholes[i].json), NULL), &whole);
        LAYBY_EXPECT(taken == wholes[i].taken && whole == (taken ? wholes[i].value : 7));
    }
    LAYBY_EXPECT_STRING(layby_get_string(value, "s"), "a");
    LAYBY_EXPECT(layby_string_size(layby_get(value, "s")) == 3);
    LAYBY_EXPECT(layby_get_integer(value, "i", &integer) && integer == -5);
    LAYBY_EXPECT(!layby_get_integer(value, "n", &integer) && integer == -5);
    LAYBY_EXPECT(layby_get_number(value, "n", &number) && number == 0.5);
    LAYBY_EXPECT(layby_get_number(value, "i", &number) && number == -5);
    LAYBY_EXPECT(!layby_get_number(value, "s", &number) && number == -5);
    LAYBY_EXPECT(layby_get_bool(value, "b", &boolean) && boolean);
    LAYBY_EXPECT(!layby_get_bool(value, "none", &boolean) && boolean);
    LAYBY_EXPECT(!layby_get_string(value, "i") && !layby_get(value, "none") && !layby_get(NULL, "s"));
    LAYBY_EXPECT(layby_get(value, "z")->type == LAYBY_NULL && layby_count(value) == 6);
    LAYBY_EXPECT(layby_first(layby_get(value, "s")) == NULL && layby_count(NULL) == 0);
    int64_t sum = 0;
    for (const layby_json *item = layby_first(layby_get(value, "l")); item; item = layby_next(item))
        if (layby_integer(item, &integer))
            sum += integer;
    LAYBY_EXPECT(sum == 3);
}

static void a_nul_inside_is_refused_unless_it_is_wanted(void)
{
    layby_call *call = layby_test_begin();
    LAYBY_EXPECT_STRING(layby_test_call("end", "{\"how\": 0, \"a\": {\"b\": \"x\\u0000y\"}}").text,
                        "the arguments do not fit: `b` has a NUL (U+0000) inside");
    LAYBY_EXPECT_STRING(layby_test_call("end", "{\"list\": [\"x\", \"\\u0000\"]}").text,
                        "the arguments do not fit: an item of `list` has a NUL (U+0000) inside");
    LAYBY_EXPECT_STRING(layby_test_call("structured", "{\"a\": \"x\\u0000y\"}").text,
                        "{\"given\":{\"a\":\"x\\u0000y\"}}");
    layby_answer answer;
    call = layby_test_begin();
    layby_test_config("color", "blue");
    LAYBY_EXPECT_STRING(layby_config_n(call, "color", 5), "blue");
    LAYBY_EXPECT(layby_config_n(call, "color\0x", 7) == NULL);
    layby_test_answer(LAYBY_ACCEPTED, "{\"v\": \"x\\u0000\"}");
    LAYBY_EXPECT(layby_ask_form(call, "k", "m", "{}", &answer) == LAYBY_FAILED);
}

static void values_are_made_and_shared(void)
{
    layby_call *call = layby_test_begin();
    layby_json *list = layby_array(call), *object = layby_object(call);
    layby_add_string(list, "bad \xFF");
    layby_add_bool(list, false);
    layby_add_integer(list, INT64_MIN);
    layby_add_number(list, 2);
    layby_add_number(list, NAN);
    layby_add(list, NULL);
    layby_set(object, "list", list);
    layby_set(object, "again", list);
    layby_set_integer(object, "n", 1);
    layby_set_string(object, "n", "replaced");
    layby_add_bool(list, true);
    layby_json *other = layby_array(call);
    layby_add(other, layby_get(object, "n"));
    layby_add(other, layby_get(object, "n"));
    LAYBY_EXPECT_STRING(layby_json_text(call, other), "[\"replaced\",\"replaced\"]");
    LAYBY_EXPECT_STRING(layby_json_text(call, layby_get(object, "again")),
                        "[\"bad \xEF\xBF\xBD\",false,-9223372036854775808,2.0,null,null]");
    LAYBY_EXPECT(layby_count(layby_get(object, "list")) == 7);
    LAYBY_EXPECT(layby_utf8("a\xC3\xBC\xFFz", 5) == 3 && layby_utf8("", 0) == 0);
}

int main(void)
{
    tools_are_listed_as_they_are();
    every_result_arrives();
    a_structured_result_is_also_text();
    every_way_to_end_is_told();
    what_is_said_reaches_the_host();
    questions_are_answered_in_order();
    memory_is_aligned_and_kept();
    json_is_read_strictly();
    values_are_asked_without_ceremony();
    a_nul_inside_is_refused_unless_it_is_wanted();
    values_are_made_and_shared();
    puts("layby.h: 11 tests passed");
    return 0;
}
