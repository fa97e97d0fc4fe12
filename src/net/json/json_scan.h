/* A pull scanner over JSON text in memory: no tree, no allocation, bounded recursion.
 *
 * The caller walks a message in the order of its text: `tt_json_open` an object, `tt_json_next` for
 * each member, `tt_json_key`, then one of the value readers or `tt_json_skip`. Strings are checked
 * and unescaped into the caller's memory. Numbers are returned as digits and exponent, so that each
 * caller converts them once, into its own type.
 *
 * Errors are TT_ERR_INVALID with a sentence that names the byte of the text. It never reads past
 * `end`, and needs no NUL there. Implemented in json_scan.c. */
#ifndef TT_NET_JSON_JSON_SCAN_H
#define TT_NET_JSON_JSON_SCAN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_JSON_MAX_DEPTH = 100, TT_JSON_MAX_NUMBER_BYTES = 1024 };

struct tt_json {
    const char *start, *at, *end;
    struct tt_error *why; /* may be NULL */
    int32_t max_depth;    /* TT_JSON_MAX_DEPTH by default; callers may lower it */
};

/* value = mantissa * 10^exponent10 if `exact`; else only the text is exact. */
struct tt_json_number {
    const char *text;
    size_t length;
    uint64_t mantissa;
    int32_t exponent10;
    bool negative;
    bool is_integer; /* written without '.' and exponent */
    bool exact;      /* all digits fit the mantissa */
};

void tt_json_init(struct tt_json *self, const char *text, size_t length, struct tt_error *why);

/* The next byte that is not white space, or '\0' at the end. */
char tt_json_peek_behind_space(struct tt_json *self);
static inline char tt_json_peek(struct tt_json *self) {
    bool is_here = self->at < self->end && (unsigned char)*self->at > ' ';
    return is_here ? *self->at : tt_json_peek_behind_space(self);
}
/* Fails with "expected <what>" and the byte found instead. */
enum tt_err tt_json_expected(struct tt_json *self, const char *what);
/* Takes `bracket` ('{' or '['). */
TT_MUST_CHECK enum tt_err tt_json_open(struct tt_json *self, char bracket);
/* Moves to the next member of an open object or array: consumes the ',' (unless `*first`, which it
 * clears) and sets `*out_more`; consumes `close` ('}' or ']') if no member is left. */
TT_MUST_CHECK enum tt_err tt_json_next(struct tt_json *self, char close, bool *first,
                                       bool *out_more);
/* Reads a member's name, unescaped and NUL-terminated, and the ':' after it. A name that does not
 * fit becomes "", since no caller looks for it. */
TT_MUST_CHECK enum tt_err tt_json_key(struct tt_json *self, char *out_key, size_t capacity);

/* The same, in place where the name has no escapes: *out_name is in the text, or in `buffer`. */
TT_MUST_CHECK enum tt_err tt_json_name(struct tt_json *self, char *buffer, size_t capacity,
                                       const char **out_name, size_t *out_bytes);

/* Reads a string, unescaped to `to` (at least as many bytes as the string has in the text), or only
 * measures it where `to` is NULL. */
TT_MUST_CHECK enum tt_err tt_json_string(struct tt_json *self, char *to, size_t *out_length);
/* Reads a string without escapes in place. False: it has escapes, or the next value is not a
 * string; nothing is consumed. */
bool tt_json_string_plain(struct tt_json *self, const char **out_string, size_t *out_length);
/* As tt_json_string, NUL-terminated; INVALID where it does not fit or holds a NUL. `what` names it
 * in the sentence. */
TT_MUST_CHECK enum tt_err tt_json_string_z(struct tt_json *self, const char *what, char *out_string,
                                           size_t capacity);
TT_MUST_CHECK enum tt_err tt_json_number(struct tt_json *self, struct tt_json_number *out_number);
/* An integer in [lowest, highest]. */
TT_MUST_CHECK enum tt_err tt_json_integer(struct tt_json *self, const char *what, int64_t lowest,
                                          int64_t highest, int64_t *out_value);
TT_MUST_CHECK enum tt_err tt_json_bool(struct tt_json *self, const char *what, bool *out_value);
/* Consumes and checks one value of any kind. */
TT_MUST_CHECK enum tt_err tt_json_skip(struct tt_json *self);
/* Consumes an array by its brackets and strings only: fast, for text that is read and checked
 * later. */
TT_MUST_CHECK enum tt_err tt_json_skip_array_unchecked(struct tt_json *self);
/* Fails unless only white space is left. */
TT_MUST_CHECK enum tt_err tt_json_end(struct tt_json *self);

#endif
