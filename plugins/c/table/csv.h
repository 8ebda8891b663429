/* Reading a table as a stream: RFC 4180, with LF or CRLF, and a byte order mark where there is one. */
#ifndef CSV_H
#define CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "layby.h"

/* A field's text without the quotes and blanks around it; a NUL follows. */
typedef struct csv_field {
    char *text;
    size_t size;
} csv_field;

typedef enum csv_event {
    CSV_RECORD,
    CSV_END,
    /* The record has a quote that the end of the table leaves open. */
    CSV_UNCLOSED,
    CSV_NOT_UTF8,
    /* The file cannot be read; `errno` says why. */
    CSV_UNREAD,
} csv_event;

typedef struct csv {
    layby_call *call;
    /* NULL: the whole table is between `at` and `end`. */
    FILE *file;
    char *buffer;
    const char *at, *end;
    /* The line of the next byte. */
    uint64_t next_line;
    /* The record that was read last, and the line on which it starts. */
    uint64_t line;
    csv_field *fields;
    size_t count, fields_capacity;
    /* The bytes of its fields, and where each begins while it is being read. */
    char *bytes;
    size_t *starts;
    size_t size, bytes_capacity;
} csv;

/* A table in memory, or in a file; either must live as long as the reader. */
void csv_open_text(csv *reader, layby_call *call, const char *text, size_t size);
void csv_open_file(csv *reader, layby_call *call, FILE *file);

/* Reads the next record; skips blank lines. `fields` hold until the next time. */
csv_event csv_next(csv *reader);

#endif
