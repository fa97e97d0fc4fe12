/* Plain CSV in the form of our own files: a header line, fields separated by commas, no quoting, LF
 * or CRLF; empty lines are skipped. Splits lines in place; does not interpret the columns. */
#ifndef TT_MODEL_TEXT_CSV_H
#define TT_MODEL_TEXT_CSV_H

#include "base/text.h"

#include <stdint.h>

enum { TT_CSV_MAX_COLUMNS = 256 };

struct tt_csv {
    const char *path; /* borrowed; for messages */
    struct tt_text text;
    char *cursor;
    int64_t line; /* of the current fields, from 1 */
    int32_t column_count, field_count;
    char *columns[TT_CSV_MAX_COLUMNS];
    char *fields[TT_CSV_MAX_COLUMNS];
};

/* Reads the file and its header. An empty file is INVALID. */
TT_MUST_CHECK enum tt_err tt_csv_open(struct tt_csv *self, const char *path, struct tt_error *why);
void tt_csv_close(struct tt_csv *self);
/* Reads the next row into `fields`; *out_more is false at the end. INVALID: the number of fields
 * differs from the header. */
TT_MUST_CHECK enum tt_err tt_csv_next(struct tt_csv *self, bool *out_more, struct tt_error *why);
/* Index of the column called `name`, or -1. */
int32_t tt_csv_column(const struct tt_csv *self, const char *name);
/* The whole field as an integer in minimum .. maximum; INVALID with file:line and the column's
 * name. */
TT_MUST_CHECK enum tt_err tt_csv_integer(const struct tt_csv *self, int32_t column, int64_t minimum,
                                         int64_t maximum, int64_t *out_value, struct tt_error *why);
/* The same for a decimal number. */
TT_MUST_CHECK enum tt_err tt_csv_number(const struct tt_csv *self, int32_t column, double minimum,
                                        double maximum, double *out_value, struct tt_error *why);

#endif
