/* What every verb does with its arguments: read a number, refuse in one line. */
#ifndef TT_CMD_ARGUMENTS_H
#define TT_CMD_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_ARGUMENTS_MAX_WORKERS = 64 };

/* A whole number from `low` to `high`, the whole text; false otherwise, `*out` untouched. */
bool tt_arguments_number(const char *text, int64_t low, int64_t high, int64_t *out);
/* The same for a decimal number; infinities and NaN are none. */
bool tt_arguments_decimal(const char *text, double low, double high, double *out);
/* Processes at once, 1 .. TT_ARGUMENTS_MAX_WORKERS; in the same way. */
bool tt_arguments_workers(const char *text, int32_t *out);
/* "tutti VERB: SENTENCE DETAIL; see tutti VERB --help" on stderr; returns 2, the exit code for it.
 * `detail` may be NULL. */
int tt_arguments_refuse(const char *verb, const char *sentence, const char *detail);

#endif
