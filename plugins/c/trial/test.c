/* Tests of `trial`, outside the sandbox. */
#include "layby.h"

#include <stdio.h>
#include <string.h>

/* The number that the question of a round showed. */
static const char *drawn(unsigned round)
{
    static char found[4][17];
    char before[32];
    snprintf(before, sizeof before, "ask round: form round %u: ", round);
    const char *line = strstr(layby_test_said(), before);
    LAYBY_EXPECT(line != NULL && round < 4);
    snprintf(found[round], sizeof found[round], "%s", line + strlen(before));
    return found[round];
}

static void test_rounds(void)
{
    layby_call *call = layby_test_begin();
    layby_test_answer(LAYBY_ACCEPTED, "{\"value\": \"a\"}");
    layby_test_answer(LAYBY_DECLINED, NULL);
    layby_test_answer(LAYBY_DISMISSED, NULL);
    layby_test_result result = layby_test_call("rounds", "{\"sleep_ms\": 2}");
    LAYBY_EXPECT(result.status == LAYBY_OK);
    const char *lines = layby_format(call, "1 %s a\n2 %s declined\n3 %s dismissed", drawn(1), drawn(2), drawn(3));
    unsigned long long hash = 0xcbf29ce484222325;
    for (const char *byte = lines; *byte; byte++)
        hash = (hash ^ (unsigned char)*byte) * 0x100000001b3;
    LAYBY_EXPECT_STRING(result.text, layby_format(call, "%s\ndigest %016llx", lines, hash));
    LAYBY_EXPECT(strcmp(drawn(1), drawn(2)) != 0);
    LAYBY_EXPECT(strstr(layby_test_said(), "progress 3/3\n") != NULL);
}

static void test_bounds(void)
{
    static const char *const cases[][2] = {
        {"{\"rounds\": 0}", "rounds is a whole number from 1 to 100"},
        {"{\"rounds\": 1.5}", "rounds is a whole number from 1 to 100"},
        {"{\"rounds\": 101.0}", "rounds is a whole number from 1 to 100"},
        {"{\"sleep_ms\": 3600001}", "sleep_ms is a whole number from 0 to 3600000"},
        {"{\"sleep_ms\": 1e300}", "sleep_ms is a whole number from 0 to 3600000"},
    };
    layby_test_begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        LAYBY_EXPECT_STRING(layby_test_call("rounds", cases[i][0]).text, cases[i][1]);
    layby_test_answer(LAYBY_DECLINED, NULL);
    LAYBY_EXPECT(layby_test_call("rounds", "{\"rounds\": 1.0, \"sleep_ms\": 1e0}").status == LAYBY_OK);
    LAYBY_EXPECT(strstr(layby_test_said(), "progress 1/1\n") != NULL);
}

int main(void)
{
    layby_test_begin();
    LAYBY_EXPECT_STRING(layby_test_call("echo", "{\"text\": \"\\u00fc \\\"q\\\" %s\"}").text, "\xC3\xBC \"q\" %s");
    layby_test_result failed = layby_test_call("fail", "{\"message\": \"100%d of it\"}");
    LAYBY_EXPECT(failed.status == LAYBY_FAILED);
    LAYBY_EXPECT_STRING(failed.text, "100%d of it");
    LAYBY_EXPECT(layby_test_call("ask", "{}").status == LAYBY_UNSUPPORTED);

    layby_test_begin();
    layby_test_answer(LAYBY_ACCEPTED, "{\"value\": \"a\"}");
    layby_test_answer(LAYBY_DISMISSED, NULL);
    LAYBY_EXPECT_STRING(layby_test_call("ask", "{}").text, "first: a, second: dismissed");

    layby_test_begin();
    layby_test_config("color", "blue");
    LAYBY_EXPECT_STRING(layby_test_call("config", "{\"key\": \"color\"}").text, "blue");
    LAYBY_EXPECT_STRING(layby_test_call("config", "{\"key\": \"colour\"}").text, "no value");
    LAYBY_EXPECT_STRING(layby_test_call("config", "{\"key\": \"color\\u0000x\"}").text, "no value");
    LAYBY_EXPECT_STRING(layby_test_call("fail", "{\"message\": \"a\\u0000b\"}").text,
                        "the arguments do not fit: `message` has a NUL (U+0000) inside");
    LAYBY_EXPECT_STRING(layby_test_call("log", "{}").text, "logged");
    layby_test_cancel_after(2);
    LAYBY_EXPECT(layby_test_call("wait", "{}").status == LAYBY_CANCELLED);
    LAYBY_EXPECT_STRING(layby_test_said(), "operator warn trial: a line by wasi:logging\n"
                                           "log notice: a line by the call\n"
                                           "progress 1\nprogress 2\nlog notice: stopped on request\n");
    test_rounds();
    test_bounds();
    puts("trial: passed");
    return 0;
}
