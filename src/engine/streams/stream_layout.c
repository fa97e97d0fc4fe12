#include "engine/streams/stream_layout.h"

#include <stdlib.h>

enum { ALIGNMENT = 256, KERNEL_ALIGNMENT = 16 };

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Places `count` tensors from `at` on; returns the end. 0: one has no fixed size. */
static size_t lay_out(const struct tt_tensor_spec *specs, int32_t count, int32_t rows, size_t at,
                      size_t *row_bytes, size_t *offsets) {
    for (int32_t i = 0; i < count; i++) {
        row_bytes[i] = tt_tensor_row_bytes(&specs[i]);
        if (row_bytes[i] == 0)
            return 0;
        offsets[i] = at;
        at = aligned(at + row_bytes[i] * (size_t)rows);
    }
    return at;
}

static enum tt_err place_ends(struct tt_stream_layout *self, const struct tt_signature *signature,
                              struct tt_error *why) {
    int32_t rows = signature->max_batch;
    size_t inputs_end = lay_out(signature->inputs, signature->input_count, rows, 0,
                                self->input_row_bytes, self->input_at);
    size_t outputs_end = lay_out(signature->outputs, signature->output_count, rows, inputs_end,
                                 self->output_row_bytes, self->output_at);
    if (inputs_end == 0 || outputs_end == 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "an input or output has no fixed size; streams run models in which only the "
                       "number of rows varies");
    self->inputs_bytes = inputs_end;
    self->outputs_at = inputs_end;
    self->outputs_bytes = outputs_end - inputs_end;
    self->pinned_bytes = self->arena_bytes = outputs_end;
    return TT_OK;
}

/* Inputs that only the first step reads, and outputs of the last one, stay where they are. */
static bool passes_between(const struct tt_dataflow *flow, const struct tt_dataflow_tensor *t) {
    return t->producer < 0 ? t->last_use > 0 : t->producer < flow->step_count - 1;
}

/* The store that is free when the tensor is made, or a new one. */
static int32_t find_store(struct tt_stream_layout *self, const struct tt_dataflow_tensor *t) {
    int32_t found = 0;
    while (found < self->store_count && (self->stores[found].row_bytes != t->row_bytes ||
                                         self->stores[found].last_use >= t->producer))
        found++;
    if (found == self->store_count)
        self->stores[self->store_count++].row_bytes = t->row_bytes;
    self->stores[found].last_use = t->last_use > t->producer ? t->last_use : t->producer;
    return found;
}

/* In the order in which steps make them. */
static void find_stores(struct tt_stream_layout *self) {
    const struct tt_dataflow *flow = self->flow;
    for (int32_t step = -1; step < flow->step_count; step++)
        for (int32_t i = 0; i < flow->tensor_count; i++) {
            const struct tt_dataflow_tensor *t = &flow->tensors[i];
            if (t->producer == step)
                self->store_of[i] = passes_between(flow, t) ? find_store(self, t) : -1;
        }
}

static void place_stores(struct tt_stream_layout *self, int32_t rows, int32_t slot_count) {
    self->alignment = 1;
    for (int32_t i = 0; i < self->store_count; i++) {
        struct tt_stream_store *store = &self->stores[i];
        store->arena_at = self->arena_bytes;
        store->slots_at = self->slots_bytes;
        self->arena_bytes += aligned(store->row_bytes * (size_t)rows);
        self->slots_bytes += aligned(store->row_bytes * (size_t)slot_count);
        while (store->row_bytes * (size_t)self->alignment % KERNEL_ALIGNMENT != 0)
            self->alignment *= 2;
    }
}

/* ---- what exits read ---- */

static bool is_read_back(const struct tt_dataflow *flow, const struct tt_dataflow_exit *exit,
                         int32_t tensor) {
    bool decides = exit->condition >= 0 ? exit->condition == tensor
                                        : exit->moved == tensor || exit->since == tensor;
    for (int32_t g = 0; g < exit->give_count && exit->to == flow->step_count; g++)
        decides |= exit->gives[g].from == tensor;
    return decides;
}

static bool host_reads(const struct tt_dataflow *flow, int32_t step, int32_t tensor) {
    for (int32_t e = 0; e < flow->exit_count; e++)
        if (flow->exits[e].step == step && is_read_back(flow, &flow->exits[e], tensor))
            return true;
    return false;
}

static enum tt_err find_read_backs(struct tt_stream_layout *self, int32_t rows,
                                   struct tt_error *why) {
    const struct tt_dataflow *flow = self->flow;
    size_t begin = self->pinned_bytes;
    self->read_backs =
        calloc((size_t)flow->exit_count * TT_STREAM_MAX_READ_BACKS + 1, sizeof(*self->read_backs));
    if (!self->read_backs)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model of %d exits",
                       flow->exit_count);
    for (int32_t s = 0; s < flow->step_count; s++) {
        size_t at = begin;
        int32_t first = self->read_back_count;
        for (int32_t t = 0; t < flow->tensor_count; t++) {
            if (!host_reads(flow, s, t))
                continue;
            if (self->read_back_count - first == TT_STREAM_MAX_READ_BACKS)
                return tt_fail(TT_ERR_UNSUPPORTED, why,
                               "the exits behind step %d have more than %d conditions and answers "
                               "together, which streams do not read back: leave some exits out",
                               s, TT_STREAM_MAX_READ_BACKS);
            self->read_backs[self->read_back_count++] =
                (struct tt_stream_read_back){.step = s, .tensor = t, .at = at};
            at = aligned(at + flow->tensors[t].row_bytes * (size_t)rows);
        }
        self->pinned_bytes = at > self->pinned_bytes ? at : self->pinned_bytes;
    }
    return TT_OK;
}

size_t tt_stream_layout_read_back(const struct tt_stream_layout *self, int32_t step,
                                  int32_t tensor) {
    int32_t i = 0;
    while (i < self->read_back_count &&
           (self->read_backs[i].step != step || self->read_backs[i].tensor != tensor))
        i++;
    tt_assert(i < self->read_back_count);
    return self->read_backs[i].at;
}

enum tt_err tt_stream_layout_init(struct tt_stream_layout *self, const struct tt_dataflow *flow,
                                  const struct tt_signature *signature, int32_t slot_count,
                                  struct tt_error *why) {
    *self = (struct tt_stream_layout){.flow = flow};
    enum tt_err err = place_ends(self, signature, why);
    if (err)
        return err;
    size_t tensors = (size_t)flow->tensor_count;
    self->stores = calloc(tensors + 1, sizeof(*self->stores));
    self->store_of = calloc(tensors + 1, sizeof(*self->store_of));
    self->output_of = calloc(tensors + 1, sizeof(*self->output_of));
    if (!self->stores || !self->store_of || !self->output_of)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model of %d tensors",
                       flow->tensor_count);
    for (int32_t s = 0; s < flow->step_count + flow->exit_count; s++) {
        const struct tt_dataflow_step *step = tt_dataflow_run(flow, s);
        int32_t most =
            step->input_count > step->output_count ? step->input_count : step->output_count;
        if (most > TT_MAX_TENSORS)
            return tt_fail(TT_ERR_UNSUPPORTED, why,
                           "step %d reads or makes %d tensors; streams run steps of at most %d", s,
                           most, TT_MAX_TENSORS);
    }
    for (size_t i = 0; i < tensors; i++) {
        self->output_of[i] = -1;
        if (flow->tensors[i].row_bytes == 0)
            return tt_fail(TT_ERR_INVALID, why,
                           "a tensor between two steps has no fixed size; streams run models in "
                           "which only the number of rows varies");
    }
    for (int32_t i = 0; i < signature->output_count; i++) {
        if (flow->tensors[flow->outputs[i]].producer < 0)
            return tt_fail(TT_ERR_UNSUPPORTED, why,
                           "output '%s' is an input of the model, which streams do not run",
                           signature->outputs[i].name);
        self->output_of[flow->outputs[i]] = i;
    }
    find_stores(self);
    place_stores(self, signature->max_batch, slot_count);
    return find_read_backs(self, signature->max_batch, why);
}

void tt_stream_layout_fini(struct tt_stream_layout *self) {
    free(self->stores);
    free(self->store_of);
    free(self->output_of);
    free(self->read_backs);
    *self = (struct tt_stream_layout){0};
}
