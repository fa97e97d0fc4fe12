#include "record/record_cells.h"

#include "base/array.h"
#include "record/recording.h"

#include <stdlib.h>

/* The first number of a spec: (first step * 4 + its sources, 3: so many follow) * 8 + these. */
enum { REPEATS = 1, OPEN_ENDED = 2, MORE_STEPS = 4, FLAG_BITS = 3, MANY_SOURCES = 3 };

enum {
    INT32_BYTES = 5, /* of a number below 2^35 */
    SPEC_BYTES = 5 * INT32_BYTES,
};

size_t tt_record_cells_bound(const struct tt_cell_spec *specs, int32_t count) {
    size_t bytes = TT_VARINT_BYTES + (size_t)count * SPEC_BYTES;
    tt_assert(count >= 1);
    tt_assert(count <= TT_CELL_GRAPH_MAX_CELLS);
    for (int32_t i = 0; i < count; i++)
        bytes += (size_t)specs[i].source_count * INT32_BYTES;
    return bytes;
}

static uint8_t *put_spec(uint8_t *to, const struct tt_cell_spec *spec, int32_t at) {
    int32_t sources = spec->source_count < MANY_SOURCES ? spec->source_count : MANY_SOURCES;
    uint64_t flags = (spec->repeat > 1 ? REPEATS : 0) | (spec->open_ended ? OPEN_ENDED : 0) |
                     (spec->last_step > spec->first_step ? MORE_STEPS : 0);
    uint64_t head = (uint64_t)spec->first_step * 4 + (uint64_t)sources;
    tt_assert(spec->first_step >= 0);
    tt_assert(spec->last_step >= spec->first_step);
    to = tt_varint_put(to, head << FLAG_BITS | flags);
    if (sources == MANY_SOURCES)
        to = tt_varint_put(to, (uint64_t)spec->source_count);
    if (flags & REPEATS)
        to = tt_varint_put(to, (uint64_t)spec->repeat);
    if (flags & MORE_STEPS)
        to = tt_varint_put(to, (uint64_t)(spec->last_step - spec->first_step));
    for (int32_t k = 0; k < spec->source_count; k++) {
        tt_assert(spec->sources[k] < at); /* what the reader asks for */
        to = tt_varint_put(to, (uint64_t)(at - spec->sources[k]));
    }
    return to;
}

uint8_t *tt_record_cells_put(uint8_t *to, const struct tt_cell_spec *specs, int32_t count) {
    to = tt_varint_put(to, (uint64_t)count);
    for (int32_t i = 0; i < count; i++)
        to = put_spec(to, &specs[i], i);
    return to;
}

/* ---- reading ---- */

/* A number from low to high. */
static bool get(const uint8_t **at, const uint8_t *end, int64_t low, int64_t high,
                int32_t *out_value) {
    uint64_t value;
    if (!tt_varint_get(at, end, &value) || value < (uint64_t)low || value > (uint64_t)high)
        return false;
    *out_value = (int32_t)value;
    return true;
}

static enum tt_err get_sources(struct tt_record_cells *self, struct tt_cell_spec *spec, int32_t at,
                               const uint8_t **from, const uint8_t *end) {
    int64_t in_all = (int64_t)self->source_count + spec->source_count;
    if (spec->source_count > end - *from || in_all > INT32_MAX / 4) /* each takes a byte */
        return TT_ERR_INVALID;
    if (!TT_ARRAY_RESERVE(self->sources, &self->source_capacity, in_all))
        return TT_ERR_NO_MEMORY;
    for (int32_t k = 0; k < spec->source_count; k++) {
        int32_t distance;
        if (!get(from, end, 1, at, &distance))
            return TT_ERR_INVALID;
        self->sources[self->source_count++] = at - distance;
    }
    return TT_OK;
}

static enum tt_err get_spec(struct tt_record_cells *self, int32_t at, const uint8_t **from,
                            const uint8_t *end, const char **out_what) {
    struct tt_cell_spec *spec = &self->specs[at];
    *spec = (struct tt_cell_spec){.repeat = 1};
    int32_t head, more_steps = 0;
    *out_what = "cell";
    if (!get(from, end, 0, INT32_MAX, &head))
        return TT_ERR_INVALID;
    spec->first_step = head >> (FLAG_BITS + 2);
    spec->source_count = head >> FLAG_BITS & MANY_SOURCES;
    spec->open_ended = head & OPEN_ENDED;
    if (spec->source_count == MANY_SOURCES && !get(from, end, 3, INT32_MAX, &spec->source_count))
        return TT_ERR_INVALID;
    *out_what = "cell's repeats";
    if (head & REPEATS && !get(from, end, 2, TT_CELL_GRAPH_MAX_CELLS, &spec->repeat))
        return TT_ERR_INVALID;
    *out_what = "cell's steps";
    if (head & MORE_STEPS && !get(from, end, 1, INT32_MAX / 2, &more_steps))
        return TT_ERR_INVALID;
    spec->last_step = spec->first_step + more_steps;
    *out_what = "cell's source, which is no cell before it";
    return get_sources(self, spec, at, from, end);
}

enum tt_err tt_record_cells_get(struct tt_record_cells *self, const uint8_t **at,
                                const uint8_t *end, const char **out_what) {
    int32_t count;
    *out_what = "number of cells";
    if (!get(at, end, 1, TT_CELL_GRAPH_MAX_CELLS, &count) || count > end - *at)
        return TT_ERR_INVALID;
    if (!TT_ARRAY_RESERVE(self->specs, &self->capacity, count))
        return TT_ERR_NO_MEMORY;
    tt_assert(self->capacity >= count);
    self->count = count;
    self->source_count = 0;
    for (int32_t i = 0; i < count; i++) {
        enum tt_err err = get_spec(self, i, at, end, out_what);
        if (err)
            return err;
    }
    int32_t first = 0; /* the array does not move from here on */
    for (int32_t i = 0; i < count; i++) {
        self->specs[i].sources = self->specs[i].source_count > 0 ? &self->sources[first] : NULL;
        first += self->specs[i].source_count;
    }
    tt_assert(first == self->source_count);
    return TT_OK;
}

void tt_record_cells_fini(struct tt_record_cells *self) {
    free(self->specs);
    free(self->sources);
    *self = (struct tt_record_cells){0};
}
