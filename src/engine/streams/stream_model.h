/* A model of a stream engine (engine/streams/stream_engine.h): its sizes, its slots between steps,
 * and the arenas of its tasks.
 *
 * An arena belongs to a place in an executor's queue. Its device part holds the inputs of max_batch
 * rows one after the other, then the outputs, then two states for what passes between the steps of
 * a task; its pinned part holds inputs and outputs only. Offsets are the same in both.
 *
 * Slots are taken by the submitting thread and given back on any thread. Implemented in
 * stream_model.c. */
#ifndef TT_ENGINE_STREAMS_STREAM_MODEL_H
#define TT_ENGINE_STREAMS_STREAM_MODEL_H

#include "base/threads/lock.h"
#include "engine/streams/stream_engine.h"

struct tt_stream_arena {
    uint64_t device; /* 0: none */
    char *pinned;
};

/* What a request keeps between its tasks: a chain of slots, one per row. */
struct tt_engine_state {
    struct tt_stream_model *model;
    int32_t first_slot;
    bool lacks_memory; /* a step found no memory for the request; its tasks', in their order */
};

struct tt_stream_inputs;

struct tt_stream_model {
    struct tt_engine_model model;    /* first */
    struct tt_stream_inputs *inputs; /* owned; NULL: none are copied when they arrive */
    struct tt_async_device *device;
    struct tt_signature signature;
    struct tt_stream_program program;
    size_t input_row_bytes[TT_MAX_TENSORS], output_row_bytes[TT_MAX_TENSORS];
    size_t input_at[TT_MAX_TENSORS], output_at[TT_MAX_TENSORS]; /* offsets in an arena */
    size_t inputs_bytes, outputs_at, outputs_bytes, states_at, arena_bytes, pinned_bytes;
    int32_t arena_count;
    struct tt_stream_arena *arenas;
    uint64_t slots; /* device memory: slot_count states */
    struct tt_lock lock;
    struct tt_engine_state *states; /* [slot_count]; a request uses that of its first slot */
    int32_t *next_slot;             /* [slot_count]: of the same request, or of the free ones */
    int32_t free_slot, free_count, slot_total;
};

/* `arena_count`: places of all executors. Errors: as tt_stream_engine_load. */
TT_MUST_CHECK enum tt_err
tt_stream_model_new(struct tt_async_device *device, const struct tt_stream_program *program,
                    int32_t arena_count, struct tt_stream_model **out_model, struct tt_error *why);
/* NULL-safe. */
void tt_stream_model_free(struct tt_stream_model *take_self);
/* Slots for `rows` rows; NULL: there are not as many. */
struct tt_engine_state *tt_stream_model_take(struct tt_stream_model *self, int32_t rows);
/* NULL-safe; any thread. */
void tt_stream_model_give(struct tt_engine_state *take_state);
static inline uint64_t tt_stream_model_slot(const struct tt_stream_model *self, int32_t slot) {
    return self->slots + (uint64_t)slot * self->program.state_bytes;
}

#endif
