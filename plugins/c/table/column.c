#include "column.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Bytes that a pool asks for at once. */
enum { POOL_BYTES = 64 * 1024 };
/* The first slots of a set. */
enum { FIRST_SLOTS = 16 };

typedef struct text_entry {
    size_t size;
    char text[];
} text_entry;

struct text_slot {
    uint32_t hash;
    const text_entry *entry;
};

static const text_entry *pool_add(text_pool *pool, const char *text, size_t size)
{
    const size_t unit = sizeof(size_t);
    size_t bytes = (sizeof(text_entry) + size + unit - 1) / unit * unit;
    if (bytes > pool->left) {
        size_t fresh = bytes > POOL_BYTES / 8 ? bytes : POOL_BYTES;
        char *block = layby_alloc(pool->call, fresh);
        /* A long text has a block of its own, and the one in use stays. */
        if (fresh == bytes) {
            text_entry *alone = (text_entry *)(void *)block;
            alone->size = size;
            memcpy(alone->text, text, size);
            return alone;
        }
        pool->at = block;
        pool->left = fresh;
    }
    text_entry *entry = (text_entry *)(void *)pool->at;
    pool->at += bytes;
    pool->left -= bytes;
    entry->size = size;
    memcpy(entry->text, text, size);
    return entry;
}

/* FNV-1a of 64 bits. Its low bits lie close together for texts that differ in their last digits, and a search goes
 * from slot to slot: one more multiplication spreads them. */
static uint32_t hash_of(const char *text, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return (uint32_t)((hash ^ hash >> 32) * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

static void grow(text_set *set)
{
    size_t capacity = set->capacity ? set->capacity * 2 : FIRST_SLOTS;
    struct text_slot *slots = calloc(capacity, sizeof *slots);
    if (!slots) {
        fprintf(stderr, "table: out of memory for %zu different values\n", set->count);
        abort();
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (!set->slots[i].entry)
            continue;
        size_t at = set->slots[i].hash & (capacity - 1);
        while (slots[at].entry)
            at = (at + 1) & (capacity - 1);
        slots[at] = set->slots[i];
    }
    free(set->slots);
    set->slots = slots;
    set->capacity = capacity;
}

bool text_set_add(text_set *set, text_pool *pool, const char *text, size_t size)
{
    /* At most three quarters are in use, so that a search always ends, and soon. */
    if (set->count >= set->capacity / 4 * 3)
        grow(set);
    uint32_t hash = hash_of(text, size);
    size_t at = hash & (set->capacity - 1);
    for (; set->slots[at].entry; at = (at + 1) & (set->capacity - 1)) {
        const struct text_slot *slot = &set->slots[at];
        if (slot->hash == hash && slot->entry->size == size && memcmp(slot->entry->text, text, size) == 0)
            return false;
    }
    set->slots[at] = (struct text_slot){hash, pool_add(pool, text, size)};
    set->count++;
    return true;
}

void text_set_free(text_set *set)
{
    free(set->slots);
    *set = (text_set){0};
}

static size_t digits(const char *text)
{
    size_t count = 0;
    while (text[count] >= '0' && text[count] <= '9')
        count++;
    return count;
}

static size_t sign(const char *text)
{
    return *text == '+' || *text == '-';
}

/* The value of digits with a point, where a double holds all that it takes to find it: then one division of two
 * exact numbers rounds as it should. The C library's way is right for all, and slow. */
static bool quick_value(const char *text, size_t whole, size_t fraction, double *value)
{
    static const double tens[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    if (whole + fraction > 15)
        return false;
    int64_t sum = 0;
    for (size_t i = 0; i < whole; i++)
        sum = sum * 10 + (text[i] - '0');
    for (size_t i = 0; i < fraction; i++)
        sum = sum * 10 + (text[whole + 1 + i] - '0');
    *value = (double)sum / tens[fraction];
    return true;
}

typedef enum numeral { NO_NUMERAL, FRACTION, WHOLE } numeral;

/* WHOLE: `[+-]?[0-9]{1,15}`, what a double holds exactly. FRACTION: any other
 * `[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?`, where it is finite. The C library also reads words and
 * hexadecimal digits. */
static numeral numeral_of(const char *text, size_t size, double *value)
{
    size_t start = sign(text), at = start;
    size_t whole = digits(text + at), fraction = 0;
    at += whole;
    numeral kind = whole >= 1 && whole <= 15 && at == size ? WHOLE : FRACTION;
    if (text[at] == '.') {
        fraction = digits(text + at + 1);
        at += 1 + fraction;
    }
    if (whole + fraction == 0)
        return NO_NUMERAL;
    bool exponent = text[at] == 'e' || text[at] == 'E';
    if (exponent) {
        at += 1 + sign(text + at + 1);
        size_t count = digits(text + at);
        if (count < 1 || count > 3)
            return NO_NUMERAL;
        at += count;
    }
    if (at != size)
        return NO_NUMERAL;
    if (exponent || !quick_value(text + start, whole, fraction, value))
        *value = strtod(text + start, NULL);
    if (*text == '-')
        *value = -*value;
    return isfinite(*value) ? kind : NO_NUMERAL;
}

static bool is_boolean(const char *text, size_t size)
{
    return (size == 4 && strcasecmp(text, "true") == 0) || (size == 5 && strcasecmp(text, "false") == 0);
}

/* Of text that is UTF-8. */
static size_t code_points(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* The sum of finite numbers may be none: from where it is too large on, it is kept in units of 2^64, which is as
 * exact. No table has so many rows that even that ends. */
static void add_to_sum(column *self, double value)
{
    const double unit = 0x1p-64;
    if (self->unit == 0)
        self->unit = 1;
    double sum = self->sum + value * self->unit;
    if (!isfinite(sum)) {
        self->unit = unit;
        sum = self->sum * unit + value * unit;
    }
    self->sum = sum;
}

void column_add(column *self, text_pool *pool, const char *text, size_t size)
{
    if (size == 0) {
        self->missing++;
        return;
    }
    bool first = self->values++ == 0;
    text_set_add(&self->seen, pool, text, size);
    double value = 0;
    numeral kind = self->no_number ? NO_NUMERAL : numeral_of(text, size, &value);
    self->no_integer = self->no_integer || kind != WHOLE;
    self->no_boolean = self->no_boolean || !is_boolean(text, size);
    if (kind == NO_NUMERAL) {
        self->no_number = true;
    } else {
        self->min = first || value < self->min ? value : self->min;
        self->max = first || value > self->max ? value : self->max;
        add_to_sum(self, value);
    }
    size_t length = kind == NO_NUMERAL ? code_points(text, size) : size;
    self->shortest = first || length < self->shortest ? length : self->shortest;
    self->longest = length > self->longest ? length : self->longest;
}

column_type column_type_of(const column *self)
{
    return self->values == 0   ? COLUMN_EMPTY
           : !self->no_integer ? COLUMN_INTEGER
           : !self->no_number  ? COLUMN_NUMBER
           : !self->no_boolean ? COLUMN_BOOLEAN
                               : COLUMN_TEXT;
}

const char *column_type_name(column_type type)
{
    static const char *const names[] = {"integer", "number", "boolean", "text", "empty"};
    return names[type];
}

bool column_is_numeric(const column *self)
{
    column_type type = column_type_of(self);
    return type == COLUMN_INTEGER || type == COLUMN_NUMBER;
}

double column_mean(const column *self)
{
    double mean = self->sum / (double)self->values / self->unit;
    /* What was rounded up could lie beyond all numbers. */
    if (self->unit < 1)
        mean = fmin(fmax(mean, self->min), self->max);
    return mean;
}
