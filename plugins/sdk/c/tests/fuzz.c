/* The JSON reader on random input: whatever it takes, it writes so that it reads the same again. */
#define LAYBY_IMPLEMENTATION
#include "layby.h"

enum { ROUNDS = 20000, MOST_BYTES = 200 };

LAYBY_TOOLS(NULL);

/* Always the same numbers, so that what fails once fails again. */
static uint32_t seed = 1;

static uint32_t below(uint32_t limit)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed % limit;
}

/* JSON, mostly: it is built of pieces that go together, and of some that do not. */
static size_t build(char *text)
{
    static const char *const pieces[] = {
        "[", "]", "{", "}", ",", ":", "\"", "\"a\"", "\"a\":", "1", "-0", "0.5e-3", "9223372036854775807", "true",
        "null", " ", "\\", "\\u00", "\"\\ud834\\udd1e\"", "\xC3\xBC", "\xFF", "\n", "\"\\n\"", "1e308", "[[1,2],{}]",
    };
    size_t size = 0;
    uint32_t count = below(20);
    for (uint32_t i = 0; i < count; i++) {
        const char *piece = pieces[below(sizeof pieces / sizeof *pieces)];
        size_t length = strlen(piece);
        if (size + length > MOST_BYTES)
            break;
        memcpy(text + size, piece, length);
        size += length;
    }
    return size;
}

/* A value of every type, at most `depth` deep. */
static layby_json *grow(layby_call *call, uint32_t depth)
{
    layby_json *value = below(2) ? layby_object(call) : layby_array(call);
    for (uint32_t count = below(5); count > 0; count--) {
        char name[3] = {(char)('a' + below(26)), (char)(1 + below(255)), '\0'};
        uint64_t bits = (uint64_t)below(UINT32_MAX) << 32 | below(UINT32_MAX);
        double number;
        memcpy(&number, &bits, sizeof number);
        layby_json *item = layby_array(call);
        switch (depth ? below(4) : 1 + below(3)) {
        case 0:
            item = grow(call, depth - 1);
            break;
        case 1:
            layby_add_number(item, number);
            break;
        case 2:
            layby_add_integer(item, (int64_t)bits);
            break;
        default:
            layby_add_string_n(item, (const char *)&bits, sizeof bits);
            break;
        }
        if (value->type == LAYBY_OBJECT)
            layby_set(value, name, item);
        else
            layby_add(value, item);
    }
    return value;
}

static void check(const char *text, size_t size, const char *same)
{
    layby_call *call = &layby__now;
    const char *error = NULL;
    /* Exactly as large as it is, so that a byte too far is seen. */
    char *exact = malloc(size ? size : 1);
    if (!exact)
        abort();
    memcpy(exact, text, size);
    const layby_json *value = layby_parse(call, exact, size, &error);
    free(exact);
    LAYBY_EXPECT(!value == !!error);
    LAYBY_EXPECT(value || !same);
    if (!value)
        return;
    const char *once = layby_json_text(call, value);
    LAYBY_EXPECT(!same || strcmp(once, same) == 0);
    const layby_json *again = layby_parse(call, once, strlen(once), &error);
    LAYBY_EXPECT(again != NULL);
    LAYBY_EXPECT_STRING(layby_json_text(call, again), once);
}

int main(void)
{
    char text[MOST_BYTES];
    for (int round = 0; round < ROUNDS; round++) {
        layby_call *call = layby_test_begin();
        check(text, build(text), NULL);
        const char *written = layby_json_text(call, grow(call, 4));
        size_t size = strlen(written);
        check(written, size, written);
        /* One byte is another one. */
        char *broken = layby_format(call, "%s", written);
        broken[below((uint32_t)size)] = (char)below(256);
        check(broken, size, NULL);
        check(written, below((uint32_t)size), NULL);
    }
    printf("layby.h: %d rounds of random JSON passed\n", ROUNDS);
    return 0;
}
