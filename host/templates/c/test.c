/* Tests of the tools, outside the sandbox: an ordinary program, with a stand-in for the host. */
#include <stdio.h>

#include "layby.h"

static void it_greets_by_name(void)
{
    layby_test_begin();
    LAYBY_EXPECT_STRING(layby_test_call("greet", "{\"name\": \"Ada\"}").text, "Hello, Ada!");
    LAYBY_EXPECT_STRING(layby_test_said(), "progress 0/1 thinking of a greeting\n");
}

static void it_asks_for_a_missing_name(void)
{
    layby_test_begin();
    layby_test_answer(LAYBY_ACCEPTED, "{\"name\": \"Grace\"}");
    LAYBY_EXPECT_STRING(layby_test_call("greet", "{}").text, "Hello, Grace!");
    layby_test_begin();
    layby_test_answer(LAYBY_DECLINED, NULL);
    LAYBY_EXPECT_STRING(layby_test_call("greet", "{}").text, "Hello, whoever you are!");
}

static void it_stops_when_cancelled(void)
{
    layby_test_begin();
    layby_test_cancel_after(0);
    LAYBY_EXPECT(layby_test_call("greet", "{}").status == LAYBY_CANCELLED);
}

int main(void)
{
    it_greets_by_name();
    it_asks_for_a_missing_name();
    it_stops_when_cancelled();
    puts("3 tests passed");
    return 0;
}
