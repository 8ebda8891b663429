/* Tests of `trial`, outside the sandbox. */
#include "layby.h"

#include <stdio.h>

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
    LAYBY_EXPECT_STRING(layby_test_call("log", "{}").text, "logged");
    layby_test_cancel_after(2);
    LAYBY_EXPECT(layby_test_call("wait", "{}").status == LAYBY_CANCELLED);
    LAYBY_EXPECT_STRING(layby_test_said(), "operator warn trial: a line by wasi:logging\n"
                                           "log notice: a line by the call\n"
                                           "progress 1\nprogress 2\nlog notice: stopped on request\n");
    puts("trial: passed");
    return 0;
}
