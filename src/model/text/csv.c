#include "model/text/csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT_BYTES ((size_t)4 << 30)

/* Splits the line at the cursor into fields; NULL at the end of the text. Skips empty lines. */
static bool split_line(struct tt_csv *self, char **fields, int32_t *out_count) {
    for (;;) {
        if (!self->cursor || *self->cursor == '\0')
            return false;
        self->line++;
        char *line = self->cursor;
        char *end = strchr(line, '\n');
        self->cursor = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        size_t length = strlen(line);
        if (length > 0 && line[length - 1] == '\r')
            line[--length] = '\0';
        if (length == 0)
            continue;
        int32_t count = 0;
        for (char *field = line; field && count < TT_CSV_MAX_COLUMNS;) {
            char *comma = strchr(field, ',');
            if (comma)
                *comma = '\0';
            fields[count++] = field;
            field = comma ? comma + 1 : NULL;
        }
        *out_count = count;
        return true;
    }
}

enum tt_err tt_csv_open(struct tt_csv *self, const char *path, struct tt_error *why) {
    *self = (struct tt_csv){.path = path};
    enum tt_err err = tt_text_read_file(path, FILE_LIMIT_BYTES, &self->text, why);
    if (err)
        return err;
    self->cursor = self->text.length ? self->text.bytes : NULL;
    if (!split_line(self, self->columns, &self->column_count)) {
        tt_csv_close(self);
        return tt_fail(TT_ERR_INVALID, why,
                       "%s:1: the file is empty; its first line must name the columns", path);
    }
    return TT_OK;
}

void tt_csv_close(struct tt_csv *self) { tt_text_fini(&self->text); }

enum tt_err tt_csv_next(struct tt_csv *self, bool *out_more, struct tt_error *why) {
    if (!split_line(self, self->fields, &self->field_count)) {
        *out_more = false;
        return TT_OK;
    }
    if (self->field_count != self->column_count)
        return tt_fail(TT_ERR_INVALID, why, "%s:%lld: %d fields, but the header names %d columns",
                       self->path, (long long)self->line, self->field_count, self->column_count);
    *out_more = true;
    return TT_OK;
}

int32_t tt_csv_column(const struct tt_csv *self, const char *name) {
    for (int32_t i = 0; i < self->column_count; i++)
        if (strcmp(self->columns[i], name) == 0)
            return i;
    return -1;
}

enum tt_err tt_csv_integer(const struct tt_csv *self, int32_t column, int64_t minimum,
                           int64_t maximum, int64_t *out_value, struct tt_error *why) {
    const char *field = self->fields[column];
    char *end;
    errno = 0;
    long long value = strtoll(field, &end, 10);
    bool whole = end != field && *end == '\0' && errno == 0 && *field != ' ';
    if (!whole || value < minimum || value > maximum)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s:%lld: %s is '%s'; it must be an integer %lld .. %lld", self->path,
                       (long long)self->line, self->columns[column], field, (long long)minimum,
                       (long long)maximum);
    *out_value = value;
    return TT_OK;
}

enum tt_err tt_csv_number(const struct tt_csv *self, int32_t column, double minimum, double maximum,
                          double *out_value, struct tt_error *why) {
    const char *field = self->fields[column];
    char *end;
    double value = strtod(field, &end);
    bool whole = end != field && *end == '\0';
    if (!whole || !(value >= minimum && value <= maximum))
        return tt_fail(TT_ERR_INVALID, why, "%s:%lld: %s is '%s'; it must be a number %g .. %g",
                       self->path, (long long)self->line, self->columns[column], field, minimum,
                       maximum);
    *out_value = value;
    return TT_OK;
}
