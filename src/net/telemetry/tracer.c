#include "net/telemetry/tracer.h"

#include <stdlib.h>
#include <string.h>

enum {
    RECORD_BYTES = sizeof(struct tt_trace_record) + TT_TRACE_STATE_BYTES +
                   (size_t)TT_TRACER_STRINGS * TT_TRACER_STRING_BYTES +
                   (size_t)TT_TRACER_STEPS * sizeof(struct tt_trace_step)
};

enum tt_err tt_tracer_init(struct tt_tracer *self, int32_t writers, size_t room_bytes,
                           int64_t sample, uint64_t seed) {
    tt_assert(writers > 0);
    tt_assert(sample >= 0 && sample <= TT_TRACER_ALL);
    size_t size = (size_t)writers * sizeof(*self->writers);
    self->writers = aligned_alloc(64, size);
    if (!self->writers)
        return TT_ERR_NO_MEMORY;
    memset(self->writers, 0, size);
    self->writer_count = writers;
    self->threshold = (uint64_t)(((unsigned __int128)sample << 56) / TT_TRACER_ALL);
    enum tt_err err = TT_OK;
    for (int32_t i = 0; i < writers && !err; i++) {
        tt_prng_init(&self->writers[i].prng, seed, (uint64_t)i);
        err = tt_byte_ring_init(&self->writers[i].ring, room_bytes);
    }
    return err;
}

void tt_tracer_fini(struct tt_tracer *self) {
    for (int32_t i = 0; self->writers && i < self->writer_count; i++)
        if (self->writers[i].ring.bytes)
            tt_byte_ring_fini(&self->writers[i].ring);
    free(self->writers);
    self->writers = NULL;
}

/* Random, and not 0, which no id may be. */
static void fill(struct tt_prng *prng, uint8_t *out, size_t words) {
    for (size_t i = 0; i < words; i++) {
        uint64_t word = tt_prng_next(prng);
        word = word ? word : 1;
        memcpy(out + i * sizeof(word), &word, sizeof(word));
    }
}

/* The last seven bytes of a trace id are the random part that others decide by, too. */
static bool is_sampled(const struct tt_tracer *self, const uint8_t *trace_id) {
    uint64_t low = 0;
    for (int i = TT_TRACE_ID_BYTES - 7; i < TT_TRACE_ID_BYTES; i++)
        low = low << 8 | trace_id[i];
    return low < self->threshold;
}

void tt_tracer_begin(struct tt_tracer *self, int32_t writer, const struct tt_trace_context *parent,
                     struct tt_traced *out_traced) {
    tt_assert(writer >= 0 && writer < self->writer_count);
    struct tt_prng *prng = &self->writers[writer].prng;
    struct tt_trace_context *context = &out_traced->context;
    out_traced->has_parent = parent != NULL;
    context->state_bytes = 0;
    fill(prng, context->span_id, 1);
    if (!parent) {
        fill(prng, context->trace_id, 2);
        context->is_sampled = is_sampled(self, context->trace_id);
        return;
    }
    memcpy(context->trace_id, parent->trace_id, TT_TRACE_ID_BYTES);
    memcpy(out_traced->parent_id, parent->span_id, TT_SPAN_ID_BYTES);
    context->is_sampled = parent->is_sampled;
    context->state_bytes = parent->state_bytes;
    memcpy(context->state, parent->state, parent->state_bytes);
}

static char *put_string(char *to, const char *string) {
    size_t length = string ? strnlen(string, TT_TRACER_STRING_BYTES - 1) : 0;
    if (length)
        memcpy(to, string, length);
    to[length] = '\0';
    return to + length + 1;
}

void tt_tracer_put(struct tt_tracer *self, int32_t writer, const struct tt_traced *traced,
                   const struct tt_trace_facts *facts, const struct tt_trace_strings *strings,
                   const struct tt_trace_step *steps, int32_t step_count) {
    tt_assert(step_count >= 0 && step_count <= TT_TRACER_STEPS);
    tt_assert(writer >= 0 && writer < self->writer_count);
    const struct tt_trace_context *context = &traced->context;
    if (!context->is_sampled)
        return;
    char bytes[RECORD_BYTES], *at = bytes + sizeof(struct tt_trace_record);
    struct tt_trace_record record = {.state_bytes = context->state_bytes,
                                     .step_count = step_count,
                                     .has_parent = traced->has_parent,
                                     .facts = *facts};
    memcpy(record.trace_id, context->trace_id, TT_TRACE_ID_BYTES);
    memcpy(record.span_id, context->span_id, TT_SPAN_ID_BYTES);
    if (traced->has_parent)
        memcpy(record.parent_id, traced->parent_id, TT_SPAN_ID_BYTES);
    memcpy(at, context->state, context->state_bytes);
    at += context->state_bytes;
    const char *const all[TT_TRACER_STRINGS] = {strings->method, strings->path, strings->model,
                                                strings->version, strings->why};
    for (int i = 0; i < TT_TRACER_STRINGS; i++)
        at = put_string(at, all[i]);
    if (step_count)
        memcpy(at, steps, (size_t)step_count * sizeof(*steps));
    at += (size_t)step_count * sizeof(*steps);
    record.size_bytes = (uint32_t)(at - bytes);
    memcpy(bytes, &record, sizeof(record));
    if (!tt_byte_ring_put(&self->writers[writer].ring, bytes, record.size_bytes))
        tt_counter_add(&self->writers[writer].lost, 1);
}

/* Copies `count` bytes from `at` on, across the end of the first piece. */
static void copy(const struct tt_byte_piece pieces[2], size_t at, size_t count, char *to) {
    size_t first = at < pieces[0].count ? pieces[0].count - at : 0;
    first = first < count ? first : count;
    if (first)
        memcpy(to, pieces[0].bytes + at, first);
    if (count > first)
        memcpy(to + first, pieces[1].bytes + (at + first - pieces[0].count), count - first);
}

static int32_t take_some(struct tt_byte_ring *ring, struct tt_text *out_records,
                         size_t limit_bytes) {
    struct tt_byte_piece pieces[2];
    size_t there = tt_byte_ring_peek(ring, pieces), at = 0;
    int32_t count = 0;
    while (at < there && out_records->length < limit_bytes) {
        uint32_t size_bytes; /* the first member */
        copy(pieces, at, sizeof(size_bytes), (char *)&size_bytes);
        tt_assert(size_bytes <= there - at);
        char *to = tt_text_reserve(out_records, size_bytes);
        if (!to)
            break;
        copy(pieces, at, size_bytes, to);
        out_records->length += size_bytes;
        at += size_bytes;
        count++;
    }
    tt_byte_ring_take(ring, at);
    return count;
}

int32_t tt_tracer_take(struct tt_tracer *self, struct tt_text *out_records, size_t limit_bytes) {
    int32_t count = 0;
    for (int32_t i = 0; i < self->writer_count; i++)
        count += take_some(&self->writers[i].ring, out_records, limit_bytes);
    return count;
}

int64_t tt_tracer_lost(const struct tt_tracer *self) {
    int64_t sum = 0;
    for (int32_t i = 0; i < self->writer_count; i++)
        sum += tt_counter_get(&self->writers[i].lost);
    return sum;
}

void tt_trace_record_read(const char *bytes, struct tt_trace_record *out_record,
                          const char **out_state, struct tt_trace_strings *out_strings) {
    memcpy(out_record, bytes, sizeof(*out_record));
    *out_state = bytes + sizeof(*out_record);
    const char **all[TT_TRACER_STRINGS] = {&out_strings->method, &out_strings->path,
                                           &out_strings->model, &out_strings->version,
                                           &out_strings->why};
    const char *at = *out_state + out_record->state_bytes;
    for (int i = 0; i < TT_TRACER_STRINGS; i++) {
        *all[i] = at;
        at += strlen(at) + 1;
    }
    at += (size_t)out_record->step_count * sizeof(struct tt_trace_step);
    tt_assert(at == bytes + out_record->size_bytes);
}

void tt_trace_record_step(const char *bytes, int32_t index, struct tt_trace_step *out_step) {
    struct tt_trace_record record;
    memcpy(&record, bytes, sizeof(record));
    tt_assert(index >= 0 && index < record.step_count);
    size_t behind = (size_t)(record.step_count - index) * sizeof(*out_step);
    memcpy(out_step, bytes + record.size_bytes - behind, sizeof(*out_step));
}
