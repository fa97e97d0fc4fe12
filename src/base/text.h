/* A growing string: bodies, reports, metric pages. If an allocation fails, `failed` is set, further
 * appends do nothing, and the owner checks once at the end. Implemented in text.c. */
#ifndef TT_BASE_TEXT_H
#define TT_BASE_TEXT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_text {
    char *bytes; /* NUL-terminated when length > 0; NULL before the first append */
    size_t length;
    size_t capacity;
    bool failed;
};

void tt_text_init(struct tt_text *self);
void tt_text_fini(struct tt_text *self);
void tt_text_clear(struct tt_text *self); /* keeps the memory */
/* Makes room for `extra` more bytes and returns where they go; NULL: out of memory. The caller
 * writes there and adds to `length`. */
char *tt_text_reserve(struct tt_text *self, size_t extra);
void tt_text_append(struct tt_text *self, const void *bytes, size_t count);
static inline void tt_text_puts(struct tt_text *self, const char *string) {
    tt_text_append(self, string, __builtin_strlen(string)); /* a constant for most callers */
}
void tt_text_printf(struct tt_text *self, const char *format, ...) TT_PRINTF(2, 3);
/* The same, with special characters of XML and HTML escaped, and without control characters. */
void tt_text_put_xml(struct tt_text *self, const char *string);
/* How many of the first bytes are printable ASCII other than these two: what a writer that escapes
 * others can copy at once. */
size_t tt_text_plain_bytes(const char *bytes, size_t length, char special, char other);
/* The number in decimal, without printf, for what is written for every request. */
void tt_text_put_integer(struct tt_text *self, int64_t value);
/* The same into TT_INTEGER_TEXT_BYTES at `out`, without a NUL; returns the number of bytes. */
enum { TT_INTEGER_TEXT_BYTES = 20 };
size_t tt_text_write_integer(int64_t value, char *out);
size_t tt_text_write_unsigned(uint64_t value, char *out);
/* "s" behind a noun, but for one. Static storage. */
static inline const char *tt_plural(int64_t count) { return count == 1 ? "" : "s"; }
/* The text as a C string ("" when empty); borrowed until the next append. */
const char *tt_text_string(const struct tt_text *self);
/* Reads the whole file. Errors: NOT_FOUND, IO, NO_MEMORY; over `limit_bytes`: INVALID. */
TT_MUST_CHECK enum tt_err tt_text_read_file(const char *path, size_t limit_bytes,
                                            struct tt_text *out_text, struct tt_error *why);
/* Writes `text` to `path` through a temporary file beside it: readers find the old text or the new
 * one, also after a loss of power (base/durable_file.h). */
TT_MUST_CHECK enum tt_err tt_text_write_file(const char *path, const struct tt_text *text,
                                             struct tt_error *why);

#endif
