#include "lab/load/kept_gaps.h"

#include "base/array.h"
#include "base/err.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

struct tt_kept_gaps *tt_kept_gaps_new(int32_t model_count) {
    struct tt_kept_gaps *self = tt_allocate(1, sizeof(*self));
    self->streams = tt_allocate((size_t)model_count, sizeof(*self->streams));
    self->model_count = model_count;
    self->room = TT_KEPT_GAPS;
    return self;
}

void tt_kept_gaps_free(struct tt_kept_gaps *take_gaps) {
    if (!take_gaps)
        return;
    for (int32_t m = 0; m < take_gaps->model_count; m++)
        free(take_gaps->streams[m].gaps);
    free(take_gaps->streams);
    free(take_gaps->requests);
    free(take_gaps);
}

void tt_kept_gaps_add(struct tt_kept_gaps *self, int32_t model, int64_t gap) {
    tt_assert(self->room > 0);
    struct tt_kept_stream *stream = &self->streams[model];
    bool reserved = TT_ARRAY_RESERVE(stream->gaps, &stream->capacity, stream->count + 1);
    tt_assert(reserved);
    stream->gaps[stream->count++] = gap;
    self->room--;
}
