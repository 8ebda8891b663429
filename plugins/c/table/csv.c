#include "csv.h"

#include <string.h>

/* Bytes read at once. */
enum { BUFFER_BYTES = 64 * 1024 };

/* Where in a record the reader stands. */
typedef enum state { FIELD_START, PLAIN, QUOTED, QUOTE_IN_QUOTED } state;

void csv_open_text(csv *reader, layby_call *call, const char *text, size_t size)
{
    *reader = (csv){.call = call, .at = text, .end = text + size, .next_line = 1};
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        reader->at += 3;
}

void csv_open_file(csv *reader, layby_call *call, FILE *file)
{
    char *buffer = layby_alloc(call, BUFFER_BYTES);
    size_t size = fread(buffer, 1, BUFFER_BYTES, file);
    csv_open_text(reader, call, buffer, size);
    reader->file = file;
    reader->buffer = buffer;
}

/* The next byte, or -1 at the end of the table or of what can be read of it. */
static inline int next_byte(csv *reader)
{
    if (reader->at == reader->end && reader->file) {
        size_t size = ferror(reader->file) ? 0 : fread(reader->buffer, 1, BUFFER_BYTES, reader->file);
        reader->at = reader->buffer;
        reader->end = reader->buffer + size;
    }
    return reader->at < reader->end ? (unsigned char)*reader->at++ : -1;
}

/* A larger copy; what it was is freed with the call. */
static void *grown(layby_call *call, const void *old, size_t size, size_t capacity)
{
    void *more = layby_alloc(call, capacity);
    if (size)
        memcpy(more, old, size);
    return more;
}

static void make_room(csv *reader, size_t more)
{
    while (reader->bytes_capacity - reader->size < more) {
        reader->bytes_capacity = reader->bytes_capacity ? reader->bytes_capacity * 2 : 1024;
        reader->bytes = grown(reader->call, reader->bytes, reader->size, reader->bytes_capacity);
    }
}

static void put(csv *reader, int byte)
{
    make_room(reader, 1);
    reader->bytes[reader->size++] = (char)byte;
}

/* Takes the bytes that follow and mean nothing but themselves, all at once: most of a table is made of them. */
static void put_run(csv *reader, bool quoted)
{
    /* What ends a run: by 1 outside of quotes, by 2 within. */
    static const unsigned char ends[256] = {[','] = 1, ['\r'] = 1, ['\n'] = 3, ['"'] = 3};
    const unsigned char mask = quoted ? 2 : 1;
    const char *at = reader->at, *end = reader->end;
    while (at < end && !(ends[(unsigned char)*at] & mask))
        at++;
    size_t size = (size_t)(at - reader->at);
    make_room(reader, size);
    memcpy(reader->bytes + reader->size, reader->at, size);
    reader->size += size;
    reader->at = at;
}

static void start_field(csv *reader)
{
    if (reader->count == reader->fields_capacity) {
        size_t used = reader->count, capacity = used ? used * 2 : 16;
        reader->starts = grown(reader->call, reader->starts, used * sizeof(size_t), capacity * sizeof(size_t));
        reader->fields = layby_alloc(reader->call, capacity * sizeof(csv_field));
        reader->fields_capacity = capacity;
    }
    reader->starts[reader->count++] = reader->size;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Makes fields of the bytes, now that they stay where they are. Each has a NUL behind it. */
static void cut(csv *reader)
{
    for (size_t i = 0; i < reader->count; i++) {
        size_t end = i + 1 < reader->count ? reader->starts[i + 1] : reader->size;
        char *from = reader->bytes + reader->starts[i], *to = reader->bytes + end - 1;
        while (from < to && is_blank(*from))
            from++;
        while (from < to && is_blank(to[-1]))
            to--;
        *to = '\0';
        reader->fields[i] = (csv_field){from, (size_t)(to - from)};
    }
}

/* Reads one line's record, blank or not. `*blank` says that there was nothing on the line. */
static csv_event read_record(csv *reader, bool *blank)
{
    state at = FIELD_START;
    /* The last byte is a CR outside of quotes, and with a LF it would be the end of the line. */
    bool carriage_return = false;
    reader->line = reader->next_line;
    reader->count = reader->size = 0;
    *blank = true;
    start_field(reader);
    for (;;) {
        int byte = next_byte(reader);
        if (byte == '\n')
            reader->next_line++;
        if (byte < 0 && (reader->file && ferror(reader->file)))
            return CSV_UNREAD;
        if (byte < 0 && at == QUOTED)
            return CSV_UNCLOSED;
        if (byte < 0 && *blank)
            return CSV_END;
        if (at == QUOTED) {
            if (byte == '"') {
                at = QUOTE_IN_QUOTED;
            } else {
                put(reader, byte);
                put_run(reader, true);
            }
            continue;
        }
        if (byte == '\n' || byte < 0)
            break;
        if (byte == '"' && at != PLAIN) {
            if (at == QUOTE_IN_QUOTED)
                put(reader, byte);
            at = QUOTED;
        } else if (byte == ',') {
            put(reader, '\0');
            start_field(reader);
            at = FIELD_START;
        } else {
            /* What follows a closing quote is taken as it is. */
            put(reader, byte);
            at = PLAIN;
        }
        carriage_return = byte == '\r';
        *blank = *blank && carriage_return && reader->size == 1;
        if (at == PLAIN && !carriage_return)
            put_run(reader, false);
    }
    if (carriage_return)
        reader->size--;
    put(reader, '\0');
    return CSV_RECORD;
}

csv_event csv_next(csv *reader)
{
    csv_event event;
    bool blank;
    do
        event = read_record(reader, &blank);
    while (event == CSV_RECORD && blank);
    if (event != CSV_RECORD)
        return event;
    if (layby_utf8(reader->bytes, reader->size) != reader->size)
        return CSV_NOT_UTF8;
    cut(reader);
    return CSV_RECORD;
}
