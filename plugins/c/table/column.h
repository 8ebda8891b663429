/* One column of a table: what its cells are, and their statistics. */
#ifndef COLUMN_H
#define COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layby.h"

/* Memory for many small texts, shared by the sets of a table. It is freed with the call. */
typedef struct text_pool {
    layby_call *call;
    char *at;
    size_t left;
} text_pool;

/* A set of texts: a hash table with open addressing. */
typedef struct text_set {
    struct text_slot *slots;
    /* Slots: 0, or a power of two. */
    size_t capacity;
    size_t count;
} text_set;

/* Adds a text; false where it is there already. Out of memory, the instance ends. */
bool text_set_add(text_set *set, text_pool *pool, const char *text, size_t size);
void text_set_free(text_set *set);

typedef enum column_type {
    COLUMN_INTEGER,
    COLUMN_NUMBER,
    COLUMN_BOOLEAN,
    COLUMN_TEXT,
    /* There is no cell with anything in it. */
    COLUMN_EMPTY,
} column_type;

typedef struct column {
    const char *name;
    size_t name_size;
    uint64_t values, missing;
    text_set seen;
    /* What some cell cannot be. */
    bool no_integer, no_number, no_boolean;
    double min, max;
    /* The sum is `sum / unit`; see `column_add`. */
    double sum, unit;
    /* In code points. */
    size_t shortest, longest;
} column;

/* Takes the next cell, without the blanks around it; `text` is ended by NUL. */
void column_add(column *self, text_pool *pool, const char *text, size_t size);
column_type column_type_of(const column *self);
const char *column_type_name(column_type type);
bool column_is_numeric(const column *self);
double column_mean(const column *self);

#endif
