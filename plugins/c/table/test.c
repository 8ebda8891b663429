/* Tests of `table`, outside the sandbox. */
#include "layby.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The result of a call with the table as an argument. */
static layby_test_result summarize(const char *csv, const char *key)
{
    layby_json *arguments = layby_object(layby_test_begin());
    layby_set_string(arguments, "csv", csv);
    if (key)
        layby_set_string(arguments, "key", key);
    return layby_test_call("summarize_table", layby_json_text(arguments->call, arguments));
}

/* The result of a call with the table in a file, in a test that has begun. */
static layby_test_result summarize_answered(const void *bytes, size_t size)
{
    char path[] = "/tmp/table-test-XXXXXX", arguments[64];
    int descriptor = mkstemp(path);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    LAYBY_EXPECT(file && fwrite(bytes, 1, size, file) == size);
    LAYBY_EXPECT(fclose(file) == 0);
    snprintf(arguments, sizeof arguments, "{\"path\": \"%s\"}", path);
    layby_test_result result = layby_test_call("summarize_table", arguments);
    remove(path);
    return result;
}

static layby_test_result summarize_file(const void *bytes, size_t size)
{
    layby_test_begin();
    return summarize_answered(bytes, size);
}

static void a_table_is_told_in_words_and_in_numbers(void)
{
    layby_test_result result = summarize("id,name\r\n1,Ada\r\n2, Bo \r\n3,\r\n4,\"Ada\"\r\n5,Friedrich\r\n", NULL);
    LAYBY_EXPECT_STRING(result.text, "5 rows, 2 columns, key: id\n"
                                     "id: integer, 5 values, 5 distinct, 1 to 5, mean 3.00\n"
                                     "name: text, 4 values, 1 missing, 3 distinct, 2 to 9 characters");
    LAYBY_EXPECT_STRING(
        result.structured,
        "{\"rows\":5,\"key\":\"id\",\"duplicates\":0,\"columns\":["
        "{\"name\":\"id\",\"type\":\"integer\",\"values\":5,\"missing\":0,\"distinct\":5,"
        "\"min\":1.0,\"max\":5.0,\"mean\":3.0},"
        "{\"name\":\"name\",\"type\":\"text\",\"values\":4,\"missing\":1,\"distinct\":3,"
        "\"shortest\":2,\"longest\":9}]}");
    LAYBY_EXPECT_STRING(layby_test_said(), "progress 5/5 5 rows\n");
}

static void what_is_malformed_is_told_with_its_line(void)
{
    static const char *const cases[][2] = {
        {"", "line 1: the table has no header"},
        {"\xEF\xBB\xBF", "line 1: the table has no header"},
        {"\n\r\n\r", "line 1: the table has no header"},
        {"a,,c\n", "line 1: column 2 has no name"},
        {"a, \t\n", "line 1: column 2 has no name"},
        {"\na,b, a\n", "line 2: two columns are named \"a\""},
        {"a,b\n1,2\n\r\n3\n", "line 4: 1 fields, and the header has 2"},
        {"a,b\n\"1\n\n1\",2\n\n3,4,5\n", "line 6: 3 fields, and the header has 2"},
        {"a,b\r\n\"1\r\n1\",2\r\n3\r\n", "line 4: 1 fields, and the header has 2"},
        {"a,b\n1,2\n3,\"4\n5,6\n", "line 3: a quoted field is not closed"},
        {"a,b\n\"1\"\"", "line 2: a quoted field is not closed"},
        {"\"a", "line 1: a quoted field is not closed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        layby_test_result result = summarize(cases[i][0], NULL);
        LAYBY_EXPECT(result.status == LAYBY_FAILED);
        LAYBY_EXPECT_STRING(result.text, cases[i][1]);
        LAYBY_EXPECT(result.structured == NULL);
    }
    LAYBY_EXPECT_STRING(summarize_file("a\n1\n\xFF\n2\n", 8).text, "line 3: not UTF-8");
    LAYBY_EXPECT_STRING(summarize_file("a\xC3\n1\n", 5).text, "line 1: not UTF-8");
}

static void quotes_blank_lines_and_a_mark_are_no_trouble(void)
{
    const char *csv = "\xEF\xBB\xBF\"a\",b\n\n1,\"x\ny\"\n\n\"2\",\"say \"\"hi\"\", \"";
    const char *expected = "2 rows, 2 columns, key: a\n"
                           "a: integer, 2 values, 2 distinct, 1 to 2, mean 1.50\n"
                           "b: text, 2 values, 2 distinct, 3 to 9 characters";
    LAYBY_EXPECT_STRING(summarize(csv, NULL).text, expected);
    LAYBY_EXPECT_STRING(summarize_file(csv, strlen(csv)).text, expected);
    static const char *const same[] = {"a\r\n\"xy\"\r\n", "a\r\nxy \r\n\r\n", "\r\na\r\n\txy", "a\nx\"y\"\r"};
    for (size_t i = 0; i < 3; i++)
        LAYBY_EXPECT_STRING(summarize(same[i], NULL).text,
                            "1 rows, 1 columns, key: a\na: text, 1 values, 1 distinct, 2 to 2 characters");
    LAYBY_EXPECT_STRING(summarize(same[3], NULL).text,
                        "1 rows, 1 columns, key: a\na: text, 1 values, 1 distinct, 4 to 4 characters");
    LAYBY_EXPECT_STRING(summarize("a\n\"\"\n", "a").text, "1 rows, 1 columns, key: a, 1 duplicates\n"
                                                         "a: empty, 0 values, 1 missing");
}

/* The type of a column with these cells, ended by NULL. */
static const char *type_of(const char *const *cells)
{
    char csv[256] = "k,c\n";
    for (int row = 0; *cells; cells++, row++)
        snprintf(csv + strlen(csv), sizeof csv - strlen(csv), "%d,%s\n", row, *cells);
    layby_test_result result = summarize(csv, "k");
    return layby_get_string(layby_next(layby_first(layby_get(result.value, "columns"))), "type");
}

static void a_column_is_what_all_of_its_cells_are(void)
{
    static const struct {
        const char *expected, *cells[6];
    } cases[] = {
        {"empty", {NULL}},
        {"empty", {"", ""}},
        {"integer", {"1", "-2", "+003", ""}},
        {"integer", {"999999999999999"}},
        {"number", {"9999999999999999"}},
        {"number", {"1", ".5", "2.", "1e3", "-1.5E-02"}},
        {"boolean", {"TRUE", "false", "False"}},
        {"text", {"true", "1"}},
        {"text", {"1", "x"}},
        {"text", {"1e999"}},
        {"text", {"inf"}},
        {"text", {"NaN"}},
        {"text", {"0x10"}},
        {"text", {"."}},
        {"text", {"+"}},
        {"text", {"1e"}},
        {"text", {"1e+"}},
        {"text", {"1e1234"}},
        {"text", {"--1"}},
        {"text", {"1 2"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        LAYBY_EXPECT_STRING(type_of(cases[i].cells), cases[i].expected);
}

static void numbers_are_those_of_the_c_library(void)
{
    layby_test_result result = summarize("n\n-0.1\n123456789.0123456789\n1.7976931348623157e308\n4.35\n", NULL);
    const layby_json *column = layby_first(layby_get(result.value, "columns"));
    double min = 0, max = 0, mean = 0;
    LAYBY_EXPECT(layby_get_number(column, "min", &min) && min == -0.1);
    LAYBY_EXPECT(layby_get_number(column, "max", &max) && max == 1.7976931348623157e308);
    LAYBY_EXPECT(layby_get_number(column, "mean", &mean));
    LAYBY_EXPECT(mean == (-0.1 + 123456789.0123456789 + 1.7976931348623157e308 + 4.35) / 4);
    LAYBY_EXPECT(strstr(summarize("n\n-0\n", NULL).text, ", 0 to 0, mean") != NULL);
}

/* The mean of the one column of a table. */
static double mean_of(const char *csv)
{
    double mean = 0;
    layby_test_result result = summarize(csv, "a");
    LAYBY_EXPECT(layby_get_number(layby_first(layby_get(result.value, "columns")), "mean", &mean));
    return mean;
}

static void a_sum_too_large_has_a_mean(void)
{
    LAYBY_EXPECT(mean_of("a\n1e308\n1.7e308\n") == 1.35e308);
    LAYBY_EXPECT(mean_of("a\n-1e308\n-1.7e308\n1\n") == -9e307);
    LAYBY_EXPECT(mean_of("a\n1.7e308\n1.7e308\n-1.7e308\n-1.7e308\n") == 0);
    const char *most = "a\n1.7976931348623157e308\n1.7976931348623157e308\n1.7976931348623157e308\n";
    LAYBY_EXPECT(mean_of(most) == 1.7976931348623157e308);
}

static void one_source_is_given(void)
{
    layby_test_begin();
    LAYBY_EXPECT_STRING(layby_test_call("summarize_table", "{}").text, "give either csv or path");
    LAYBY_EXPECT_STRING(layby_test_call("summarize_table", "{\"csv\": \"a\", \"path\": \"/a\"}").text,
                        "give either csv or path");
    const char *text = layby_test_call("summarize_table", "{\"path\": \"/no/such/table.csv\"}").text;
    LAYBY_EXPECT_STRING(text, "cannot read /no/such/table.csv: No such file or directory");
    text = layby_test_call("summarize_table", "{\"path\": \"/\"}").text;
    LAYBY_EXPECT_STRING(text, "cannot read /: it is a folder");
    /* Not the file whose path stands before the NUL. */
    text = layby_test_call("summarize_table", "{\"path\": \"/\\u0000x\"}").text;
    LAYBY_EXPECT_STRING(text, "cannot read /\xEF\xBF\xBDx: there is a NUL in the path");
    text = layby_test_call("summarize_table", "{\"csv\": \"a\\n1\", \"key\": \"a\\u0000b\"}").text;
    LAYBY_EXPECT_STRING(text, "there is no column \"a\xEF\xBF\xBD" "b\"; there are \"a\"");
}

static void the_key_is_given_found_or_asked_for(void)
{
    const char *csv = "a,b\n1,x\n1,y\n2,\n", *call = "{\"csv\": \"a,b\\n1,x\\n1,y\\n2,\\n\"}";
    LAYBY_EXPECT(strncmp(summarize(csv, "a").text, "3 rows, 2 columns, key: a, 1 duplicates\n", 40) == 0);
    LAYBY_EXPECT_STRING(summarize(csv, "c").text, "there is no column \"c\"; there are \"a\", \"b\"");
    LAYBY_EXPECT(summarize(csv, NULL).status == LAYBY_UNSUPPORTED);

    layby_test_begin();
    layby_test_answer(LAYBY_ACCEPTED, "{\"key\": \"b\"}");
    const char *text = layby_test_call("summarize_table", call).text;
    LAYBY_EXPECT(strncmp(text, "3 rows, 2 columns, key: b, 1 duplicates\n", 40) == 0);
    LAYBY_EXPECT_STRING(layby_test_said(),
                        "progress 3/3 3 rows\n"
                        "ask key_column: form No column has a different value in every row. Which one identifies a "
                        "row? {\"type\":\"object\",\"properties\":{\"key\":{\"type\":\"string\",\"enum\":[\"a\",\"b\"]}"
                        "},\"required\":[\"key\"]}\n");
    for (layby_outcome outcome = LAYBY_DECLINED; outcome <= LAYBY_DISMISSED; outcome++) {
        layby_test_begin();
        layby_test_answer(outcome, NULL);
        layby_test_result result = layby_test_call("summarize_table", call);
        LAYBY_EXPECT(strncmp(result.text, "3 rows, 2 columns, no key\n", 26) == 0);
        LAYBY_EXPECT(!layby_get(result.value, "key") && !layby_get(result.value, "duplicates"));
    }
    LAYBY_EXPECT(strncmp(summarize("a,b\n", NULL).text, "0 rows, 2 columns, no key\n", 26) == 0);
}

static void a_long_table_tells_how_far_it_is_and_can_be_cancelled(void)
{
    char *csv = malloc(3 + 2500 * 6);
    LAYBY_EXPECT(csv != NULL);
    size_t size = (size_t)sprintf(csv, "n\n");
    for (int row = 1; row <= 2500; row++)
        size += (size_t)sprintf(csv + size, "%d\n", row);
    LAYBY_EXPECT_STRING(summarize_file(csv, size).text,
                        "2500 rows, 1 columns, key: n\n"
                        "n: integer, 2500 values, 2500 distinct, 1 to 2500, mean 1250.50");
    LAYBY_EXPECT_STRING(layby_test_said(),
                        "progress 1000 1000 rows\nprogress 2000 2000 rows\nprogress 2500/2500 2500 rows\n");
    layby_json *arguments = layby_object(layby_test_begin());
    layby_set_string(arguments, "csv", csv);
    layby_test_cancel_after(1);
    const char *text = layby_json_text(arguments->call, arguments);
    LAYBY_EXPECT(layby_test_call("summarize_table", text).status == LAYBY_CANCELLED);
    LAYBY_EXPECT_STRING(layby_test_said(), "progress 1000 1000 rows\nprogress 2000 2000 rows\n");
    free(csv);
}

/* Every byte of a row is once where the reader's buffer ends. */
static void a_row_may_lie_across_the_buffer(void)
{
    static const char row[] = "\"1\r\n\"\"\",\xC3\xBC \r\n";
    enum { ROWS = 6000, WIDTH = sizeof row - 1 };
    char *csv = malloc(64 + ROWS * WIDTH);
    LAYBY_EXPECT(csv != NULL);
    for (size_t shift = 0; shift < WIDTH; shift++) {
        size_t size = (size_t)sprintf(csv, "%.*sa,b\r\n", (int)shift, "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n");
        for (int i = 0; i < ROWS; i++, size += WIDTH)
            memcpy(csv + size, row, WIDTH);
        layby_test_begin();
        layby_test_answer(LAYBY_DECLINED, NULL);
        layby_test_result result = summarize_answered(csv, size);
        LAYBY_EXPECT_STRING(result.text, "6000 rows, 2 columns, no key\n"
                                         "a: text, 6000 values, 1 distinct, 4 to 4 characters\n"
                                         "b: text, 6000 values, 1 distinct, 1 to 1 characters");
    }
    free(csv);
}

int main(void)
{
    a_table_is_told_in_words_and_in_numbers();
    what_is_malformed_is_told_with_its_line();
    quotes_blank_lines_and_a_mark_are_no_trouble();
    a_column_is_what_all_of_its_cells_are();
    numbers_are_those_of_the_c_library();
    a_sum_too_large_has_a_mean();
    one_source_is_given();
    the_key_is_given_found_or_asked_for();
    a_long_table_tells_how_far_it_is_and_can_be_cancelled();
    a_row_may_lie_across_the_buffer();
    puts("table: 10 tests passed");
    return 0;
}
