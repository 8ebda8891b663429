/* A plugin with one tool: statistics of a CSV file. */
#define LAYBY_IMPLEMENTATION
#include "layby.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "column.h"
#include "csv.h"

/* Rows between two reports of progress, and two checks for cancellation. */
enum { STRIDE = 1000 };

#define NO_KEY SIZE_MAX

typedef struct table {
    layby_call *call;
    /* Where it is from; NULL where it is an argument. */
    const char *path;
    csv reader;
    text_pool pool;
    column *columns;
    size_t width;
    uint64_t rows;
    /* The index of the column that identifies a row. */
    size_t key;
} table;

/* A text as a message has it, which ends at a NUL: U+FFFD stands for each. */
static const char *shown(layby_call *call, const char *text, size_t size)
{
    char *message = layby_alloc(call, size * 3 + 1), *end = message;
    for (size_t i = 0; i < size; i++) {
        if (text[i])
            *end++ = text[i];
        else
            end = (char *)memcpy(end, "\xEF\xBF\xBD", 3) + 3;
    }
    return message;
}

/* ---- Reading ---- */

/* What it means that there is no record. */
static layby_status no_record(const table *t, csv_event event)
{
    unsigned long long line = t->reader.line;
    switch (event) {
    case CSV_UNCLOSED:
        return layby_fail(t->call, "line %llu: a quoted field is not closed", line);
    case CSV_NOT_UTF8:
        return layby_fail(t->call, "line %llu: not UTF-8", line);
    case CSV_UNREAD:
        return layby_fail(t->call, "cannot read %s: %s", t->path, strerror(errno));
    default:
        return layby_fail(t->call, "line 1: the table has no header");
    }
}

static layby_status read_header(table *t)
{
    csv_event event = csv_next(&t->reader);
    if (event != CSV_RECORD)
        return no_record(t, event);
    unsigned long long line = t->reader.line;
    t->columns = layby_alloc(t->call, t->reader.count * sizeof *t->columns);
    text_set names = {0};
    layby_status status = LAYBY_OK;
    for (size_t i = 0; i < t->reader.count && status == LAYBY_OK; i++) {
        csv_field name = t->reader.fields[i];
        char *kept = layby_alloc(t->call, name.size + 1);
        memcpy(kept, name.text, name.size);
        t->columns[i] = (column){.name = kept, .name_size = name.size};
        t->width = i + 1;
        if (name.size == 0)
            status = layby_fail(t->call, "line %llu: column %zu has no name", line, i + 1);
        else if (!text_set_add(&names, &t->pool, name.text, name.size))
            status = layby_fail(t->call, "line %llu: two columns are named \"%s\"", line,
                                shown(t->call, kept, name.size));
    }
    text_set_free(&names);
    return status;
}

static layby_status tell(const table *t, uint64_t total)
{
    char message[32];
    snprintf(message, sizeof message, "%llu rows", (unsigned long long)t->rows);
    layby_progress(t->call, (double)t->rows, (double)total, message);
    return layby_check(t->call);
}

static layby_status read_rows(table *t)
{
    csv_event event;
    while ((event = csv_next(&t->reader)) == CSV_RECORD) {
        if (t->reader.count != t->width)
            return layby_fail(t->call, "line %llu: %zu fields, and the header has %zu",
                              (unsigned long long)t->reader.line, t->reader.count, t->width);
        for (size_t i = 0; i < t->width; i++)
            column_add(&t->columns[i], &t->pool, t->reader.fields[i].text, t->reader.fields[i].size);
        if (++t->rows % STRIDE == 0)
            LAYBY_TRY(tell(t, 0));
    }
    if (event != CSV_END)
        return no_record(t, event);
    return t->rows > 0 ? tell(t, t->rows) : LAYBY_OK;
}

/* ---- The key ---- */

static layby_status key_named(table *t, const layby_json *name)
{
    const char *text = layby_string(name);
    size_t size = layby_string_size(name);
    for (size_t i = 0; text && i < t->width; i++) {
        if (t->columns[i].name_size == size && memcmp(t->columns[i].name, text, size) == 0) {
            t->key = i;
            return LAYBY_OK;
        }
    }
    const char *names = "";
    for (size_t i = 0; i < t->width; i++)
        names = layby_format(t->call, "%s%s\"%s\"", names, i ? ", " : "",
                             shown(t->call, t->columns[i].name, t->columns[i].name_size));
    return layby_fail(t->call, "there is no column \"%s\"; there are %s",
                      text ? shown(t->call, text, size) : "", names);
}

static layby_status ask_for_key(table *t)
{
    layby_call *call = t->call;
    layby_json *names = layby_array(call), *key = layby_object(call), *properties = layby_object(call);
    for (size_t i = 0; i < t->width; i++)
        layby_add_string_n(names, t->columns[i].name, t->columns[i].name_size);
    layby_set_string(key, "type", "string");
    layby_set(key, "enum", names);
    layby_set(properties, "key", key);
    layby_json *schema = layby_object(call), *required = layby_array(call);
    layby_add_string(required, "key");
    layby_set_string(schema, "type", "object");
    layby_set(schema, "properties", properties);
    layby_set(schema, "required", required);

    layby_answer answer;
    LAYBY_TRY(layby_ask_form(call, "key_column",
                             "No column has a different value in every row. Which one identifies a row?",
                             layby_json_text(call, schema), &answer));
    return answer.outcome == LAYBY_ACCEPTED ? key_named(t, layby_get(answer.content, "key")) : LAYBY_OK;
}

static layby_status find_key(table *t, const layby_json *given)
{
    if (given)
        return key_named(t, given);
    if (t->rows == 0)
        return LAYBY_OK;
    for (size_t i = 0; i < t->width; i++) {
        if (t->columns[i].seen.count == t->rows) {
            t->key = i;
            return LAYBY_OK;
        }
    }
    return ask_for_key(t);
}

/* ---- The result ---- */

/* A value's first row is none, and every other row is one. */
static uint64_t duplicates(const table *t)
{
    return t->rows - t->columns[t->key].seen.count;
}

static layby_json *statistics_of(layby_call *call, const column *c)
{
    layby_json *value = layby_object(call);
    layby_set_string_n(value, "name", c->name, c->name_size);
    layby_set_string(value, "type", column_type_name(column_type_of(c)));
    layby_set_integer(value, "values", (int64_t)c->values);
    layby_set_integer(value, "missing", (int64_t)c->missing);
    layby_set_integer(value, "distinct", (int64_t)c->seen.count);
    if (column_is_numeric(c)) {
        layby_set_number(value, "min", c->min);
        layby_set_number(value, "max", c->max);
        layby_set_number(value, "mean", column_mean(c));
    } else if (column_type_of(c) == COLUMN_TEXT) {
        layby_set_integer(value, "shortest", (int64_t)c->shortest);
        layby_set_integer(value, "longest", (int64_t)c->longest);
    }
    return value;
}

static layby_json *summary_of(const table *t)
{
    layby_json *summary = layby_object(t->call), *columns = layby_array(t->call);
    layby_set_integer(summary, "rows", (int64_t)t->rows);
    if (t->key != NO_KEY) {
        layby_set_string_n(summary, "key", t->columns[t->key].name, t->columns[t->key].name_size);
        layby_set_integer(summary, "duplicates", (int64_t)duplicates(t));
    }
    for (size_t i = 0; i < t->width; i++)
        layby_add(columns, statistics_of(t->call, &t->columns[i]));
    layby_set(summary, "columns", columns);
    return summary;
}

static void describe(FILE *out, const column *c)
{
    column_type type = column_type_of(c);
    fwrite(c->name, 1, c->name_size, out);
    fprintf(out, ": %s, %llu values", column_type_name(type), (unsigned long long)c->values);
    if (c->missing > 0)
        fprintf(out, ", %llu missing", (unsigned long long)c->missing);
    if (type != COLUMN_EMPTY)
        fprintf(out, ", %zu distinct", c->seen.count);
    if (type == COLUMN_INTEGER)
        fprintf(out, ", %lld to %lld, mean %.2f", (long long)c->min, (long long)c->max, column_mean(c));
    else if (type == COLUMN_NUMBER)
        fprintf(out, ", %.2f to %.2f, mean %.2f", c->min, c->max, column_mean(c));
    else if (type == COLUMN_TEXT)
        fprintf(out, ", %zu to %zu characters", c->shortest, c->longest);
}

static layby_status give_text(const table *t)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return layby_fail(t->call, "out of memory");
    fprintf(out, "%llu rows, %zu columns", (unsigned long long)t->rows, t->width);
    if (t->key == NO_KEY) {
        fputs(", no key", out);
    } else {
        fputs(", key: ", out);
        fwrite(t->columns[t->key].name, 1, t->columns[t->key].name_size, out);
        if (duplicates(t) > 0)
            fprintf(out, ", %llu duplicates", (unsigned long long)duplicates(t));
    }
    for (size_t i = 0; i < t->width; i++) {
        fputc('\n', out);
        describe(out, &t->columns[i]);
    }
    bool written = !ferror(out);
    layby_status status = LAYBY_OK;
    if (fclose(out) == 0 && written)
        layby_text_n(t->call, text, size);
    else
        status = layby_fail(t->call, "out of memory");
    free(text);
    return status;
}

/* ---- The tool ---- */

static layby_status summarize(table *t, const layby_json *key)
{
    LAYBY_TRY(read_header(t));
    LAYBY_TRY(read_rows(t));
    LAYBY_TRY(find_key(t, key));
    LAYBY_TRY(give_text(t));
    return layby_structured(t->call, summary_of(t));
}

/* A folder opens like a file. */
static bool is_folder(FILE *file)
{
    struct stat found;
    return fstat(fileno(file), &found) == 0 && S_ISDIR(found.st_mode);
}

static layby_status summarize_table(layby_call *call, const layby_json *arguments)
{
    const layby_json *text = layby_get(arguments, "csv");
    const layby_json *given = layby_get(arguments, "path");
    const char *path = layby_string(given);
    table t = {.call = call, .path = path, .pool = {.call = call}, .key = NO_KEY};
    FILE *file = NULL;
    if (!text == !path)
        return layby_fail(call, "give either csv or path");
    if (text) {
        csv_open_text(&t.reader, call, layby_string(text), layby_string_size(text));
    } else if (strlen(path) < layby_string_size(given)) {
        return layby_fail(call, "cannot read %s: there is a NUL in the path",
                          shown(call, path, layby_string_size(given)));
    } else if (!(file = fopen(path, "rb"))) {
        return layby_fail(call, "cannot read %s: %s", path, strerror(errno));
    } else if (is_folder(file)) {
        fclose(file);
        return layby_fail(call, "cannot read %s: it is a folder", path);
    } else {
        csv_open_file(&t.reader, call, file);
    }
    layby_status status = summarize(&t, layby_get(arguments, "key"));
    for (size_t i = 0; i < t.width; i++)
        text_set_free(&t.columns[i].seen);
    if (file)
        fclose(file);
    return status;
}

static const layby_tool summarize_table_tool = {
    .name = "summarize_table",
    .title = "Summarize a table",
    .description = "Statistics for each column of a CSV file, and which column identifies a row.",
    .input_schema = LAYBY_JSON({
        "type": "object",
        "properties": {
            "csv": {
                "type": "string",
                "description": "The table itself, as CSV text with a header line."
            },
            "path": {
                "type": "string",
                "description": "Path of a CSV file in a granted folder, such as /tables/people.csv."
            },
            "key": {
                "type": "string",
                "description": "Name of the column that identifies a row; found or asked for where it is not given."
            }
        },
        "additionalProperties": false
    }),
    .output_schema = LAYBY_JSON({
        "type": "object",
        "properties": {
            "rows": {"type": "integer", "description": "Records below the header."},
            "key": {"type": "string", "description": "The column that identifies a row."},
            "duplicates": {
                "type": "integer",
                "description": "Rows whose key is missing, or stands in an earlier row."
            },
            "columns": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "type": {"enum": ["integer", "number", "boolean", "text", "empty"]},
                        "values": {"type": "integer", "description": "Cells with something in them."},
                        "missing": {"type": "integer", "description": "Cells without."},
                        "distinct": {"type": "integer", "description": "Different values."},
                        "min": {"type": "number", "description": "Of numbers: the smallest."},
                        "max": {"type": "number", "description": "Of numbers: the largest."},
                        "mean": {"type": "number", "description": "Of numbers: their mean."},
                        "shortest": {"type": "integer", "description": "Of text: characters of the shortest."},
                        "longest": {"type": "integer", "description": "Of text: characters of the longest."}
                    },
                    "required": ["name", "type", "values", "missing", "distinct"]
                }
            }
        },
        "required": ["rows", "columns"]
    }),
    .read_only = LAYBY_YES,
    .nul_in_strings = true,
    .run = summarize_table,
};

LAYBY_TOOLS(&summarize_table_tool);
