#include "lab/scenario/lengths.h"

#include "lab/scenario/allocate.h"
#include "model/text/csv.h"

#include <stdlib.h>

struct reading {
    struct tt_csv csv;
    int32_t percentile, column[2];
    bool seen[TT_QUANTILES];
};

static enum tt_err find_columns(struct reading *r, const char *const names[2],
                                struct tt_error *why) {
    r->percentile = tt_csv_column(&r->csv, "percentile");
    if (r->percentile < 0)
        return tt_fail(TT_ERR_INVALID, why, "%s:1: lengths need the column percentile",
                       r->csv.path);
    for (int32_t i = 0; i < 2; i++) {
        r->column[i] = names[i][0] ? tt_csv_column(&r->csv, names[i]) : -1;
        if (names[i][0] && r->column[i] < 0)
            return tt_fail(TT_ERR_INVALID, why, "%s:1: no column is called '%s'", r->csv.path,
                           names[i]);
    }
    return TT_OK;
}

/* Reads a row such as 99.5. A length without a column is that of percentile 99. */
static enum tt_err read_tail(struct reading *r, struct tt_lengths *lengths, double percentile,
                             struct tt_error *why) {
    if (lengths->tail_count == TT_LENGTHS_MAX_TAIL)
        return tt_fail(TT_ERR_INVALID, why, "%s:%lld: more than %d rows between 99 and 100",
                       r->csv.path, (long long)r->csv.line, TT_LENGTHS_MAX_TAIL);
    if (!r->seen[99])
        return tt_fail(TT_ERR_INVALID, why,
                       "%s:%lld: rows between 99 and 100 come after that of 99", r->csv.path,
                       (long long)r->csv.line);
    struct tt_length_point point = {(uint64_t)(percentile * 4294967296.0),
                                    {lengths->input[99], lengths->output[99]}};
    const struct tt_length_point *last =
        lengths->tail_count > 0 ? &lengths->tail[lengths->tail_count - 1] : NULL;
    if (last && point.percentile <= last->percentile)
        return tt_fail(TT_ERR_INVALID, why, "%s:%lld: rows between 99 and 100 must ascend",
                       r->csv.path, (long long)r->csv.line);
    for (int32_t i = 0; i < 2; i++) {
        if (r->column[i] < 0)
            continue;
        double value;
        enum tt_err err = tt_csv_number(&r->csv, r->column[i], 0, 1e6, &value, why);
        if (err)
            return err;
        point.lengths[i] = value < 1 ? 1 : (int32_t)(value + 0.5);
        int32_t least = last ? last->lengths[i] : i == 0 ? lengths->input[99] : lengths->output[99];
        if (point.lengths[i] < least)
            return tt_fail(TT_ERR_INVALID, why, "%s:%lld: rows between 99 and 100 must ascend",
                           r->csv.path, (long long)r->csv.line);
    }
    lengths->tail[lengths->tail_count++] = point;
    return TT_OK;
}

static enum tt_err read_row(struct reading *r, struct tt_lengths *lengths, struct tt_error *why) {
    int32_t *const rows[2] = {lengths->input, lengths->output};
    double percentile, value;
    enum tt_err err = tt_csv_number(&r->csv, r->percentile, 0, 100, &percentile, why);
    if (err)
        return err;
    int32_t p = (int32_t)percentile;
    if ((double)p != percentile)
        return p == 99 ? read_tail(r, lengths, percentile, why)
                       : TT_OK; /* such as 90.5: not used */
    r->seen[p] = true;
    for (int32_t i = 0; i < 2; i++) {
        if (r->column[i] < 0)
            continue;
        err = tt_csv_number(&r->csv, r->column[i], 0, 1e6, &value, why);
        if (err)
            return err;
        rows[i][p] = value < 1 ? 1 : (int32_t)(value + 0.5);
        if (p > 0 && rows[i][p] < rows[i][p - 1])
            return tt_fail(TT_ERR_INVALID, why,
                           "%s:%lld: column %s falls from one percentile to "
                           "the next; percentiles must ascend",
                           r->csv.path, (long long)r->csv.line, r->csv.columns[r->column[i]]);
    }
    return TT_OK;
}

/* Percentile 100 is at least as long as those before it. */
static enum tt_err check_tail(const struct reading *r, const struct tt_lengths *lengths,
                              struct tt_error *why) {
    if (lengths->tail_count == 0)
        return TT_OK;
    const int32_t *last = lengths->tail[lengths->tail_count - 1].lengths;
    if (last[0] <= lengths->input[TT_QUANTILES - 1] && last[1] <= lengths->output[TT_QUANTILES - 1])
        return TT_OK;
    return tt_fail(TT_ERR_INVALID, why,
                   "%s: a row between 99 and 100 is above percentile 100; percentiles must ascend",
                   r->csv.path);
}

static enum tt_err read_rows(struct reading *r, struct tt_lengths *lengths, struct tt_error *why) {
    bool more = true;
    while (more) {
        enum tt_err err = tt_csv_next(&r->csv, &more, why);
        if (!err && more)
            err = read_row(r, lengths, why);
        if (err)
            return err;
    }
    for (int32_t p = 0; p < TT_QUANTILES; p++)
        if (!r->seen[p])
            return tt_fail(TT_ERR_INVALID, why,
                           "%s: percentile %d is missing; all of 0, 1, .. 100 are needed",
                           r->csv.path, p);
    return check_tail(r, lengths, why);
}

enum tt_err tt_lengths_read(const char *path, const char *input, const char *output,
                            struct tt_lengths *self, struct tt_error *why) {
    const char *const names[2] = {input, output};
    struct reading *r = tt_allocate(1, sizeof(*r));
    struct tt_lengths lengths = *self;
    lengths.tail_count = 0;
    enum tt_err err = tt_csv_open(&r->csv, path, why);
    if (!err) {
        err = find_columns(r, names, why);
        if (!err)
            err = read_rows(r, &lengths, why);
        tt_csv_close(&r->csv);
    }
    free(r);
    if (!err)
        *self = lengths;
    return err;
}

static int32_t at(const int32_t *quantiles, uint64_t p, uint64_t fraction) {
    uint64_t width = (uint64_t)(quantiles[p + 1] - quantiles[p]);
    return quantiles[p] + (int32_t)((width * fraction + (1u << 31)) >> 32);
}

/* Interpolates linearly between the points of the last percent. */
static int32_t at_tail(const struct tt_lengths *self, const int32_t *quantiles, int32_t which,
                       uint64_t drawn) {
    uint64_t from = UINT64_C(99) << 32, to = UINT64_C(100) << 32;
    int64_t low = quantiles[99], high = quantiles[100];
    for (int32_t i = 0; i < self->tail_count; i++) {
        if (self->tail[i].percentile > drawn) {
            to = self->tail[i].percentile;
            high = self->tail[i].lengths[which];
            break;
        }
        from = self->tail[i].percentile;
        low = self->tail[i].lengths[which];
    }
    int64_t width = (int64_t)(to - from);
    return (int32_t)(low + ((high - low) * (int64_t)(drawn - from) + width / 2) / width);
}

void tt_lengths_draw(const struct tt_lengths *self, struct tt_prng *prng, int32_t *out_input,
                     int32_t *out_output) {
    uint64_t drawn = tt_prng_below(prng, (uint64_t)(TT_QUANTILES - 1) << 32);
    uint64_t p = drawn >> 32, fraction = drawn & UINT32_MAX;
    if (p == 99 && self->tail_count > 0) {
        *out_input = at_tail(self, self->input, 0, drawn);
        *out_output = at_tail(self, self->output, 1, drawn);
        return;
    }
    *out_input = at(self->input, p, fraction);
    *out_output = at(self->output, p, fraction);
}
