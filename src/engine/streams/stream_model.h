/* A model of a stream engine (engine/streams/stream_engine.h): its slots between steps, and the
 * arenas of its tasks. stream_layout.h says what is where in them.
 *
 * An arena belongs to a place in an executor's queue. Its pinned part holds inputs and outputs
 * only. A batch gets adjacent slots in its order if there are such: its tasks then read and write
 * them in place. Slots are taken by the submitting thread and given back on any thread. Implemented
 * in stream_model.c. */
#ifndef TT_ENGINE_STREAMS_STREAM_MODEL_H
#define TT_ENGINE_STREAMS_STREAM_MODEL_H

#include "base/threads/lock.h"
#include "engine/streams/stream_engine.h"
#include "engine/streams/stream_layout.h"

struct tt_stream_arena {
    uint64_t device; /* 0: none */
    char *pinned;
    struct tt_async_range *ranges; /* with the order checker: room for what a kernel touches */
};

/* What a request keeps between its tasks: a chain of slots, one per row. */
struct tt_engine_state {
    struct tt_stream_model *model;
    int32_t first_slot;
    enum tt_err refused; /* why a step left the request out; its tasks', in their order */
    int32_t exit;        /* D8: the last one that it took; -1: none */
};

struct tt_stream_cells;
struct tt_stream_inputs;

struct tt_stream_model {
    struct tt_engine_model model;    /* first */
    struct tt_stream_inputs *inputs; /* owned; NULL: none are copied when they arrive */
    /* Owned; NULL: it is a model of requests. One of cells has neither arenas nor the slots below.
     */
    struct tt_stream_cells *cells;
    struct tt_async_device *device;
    struct tt_signature signature;
    struct tt_stream_program program;
    struct tt_dataflow chain; /* of a program without a dataflow */
    struct tt_stream_layout layout;
    int32_t arena_count;
    struct tt_stream_arena *arenas;
    uint64_t slots; /* device memory: layout.slots_bytes */
    struct tt_lock lock;
    struct tt_engine_state *states; /* [slot_total]; a request uses that of its first slot */
    int32_t *next_slot;             /* [slot_total]: of the same request; -1: its last one */
    bool *is_used;                  /* [slot_total] */
    int32_t cursor, free_count, slot_total;
};

/* `depth`: places of an executor. Errors: as tt_stream_engine_load. */
TT_MUST_CHECK enum tt_err tt_stream_model_new(struct tt_async_device *device,
                                              const struct tt_stream_program *program,
                                              int32_t executor_count, int32_t depth,
                                              struct tt_stream_model **out_model,
                                              struct tt_error *why);
/* NULL-safe. */
void tt_stream_model_free(struct tt_stream_model *take_self);
/* Gives a state to each of these members; one that finds no slots has none. */
void tt_stream_model_take(struct tt_stream_model *self, struct tt_engine_member *const *members,
                          int32_t count);
/* NULL-safe; any thread. */
void tt_stream_model_give(struct tt_engine_state *take_state);
/* Where a slot is in the array of a store. */
static inline uint64_t tt_stream_model_slot(const struct tt_stream_model *self, int32_t store,
                                            int32_t slot) {
    const struct tt_stream_store *s = &self->layout.stores[store];
    return self->slots + s->slots_at + (uint64_t)slot * s->row_bytes;
}

#endif
