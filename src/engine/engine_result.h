/* The outputs of one run, shared by its members.
 *
 * The engine makes a result with one reference per member and fills the outputs. Then it never
 * touches the result again. Members read their rows in place, on any thread. Each drops its
 * reference when its answer has been written. */
#ifndef TT_ENGINE_ENGINE_RESULT_H
#define TT_ENGINE_ENGINE_RESULT_H

#include "base/threads/refcount.h"
#include "engine/engine.h"

#include <stdbool.h>

struct tt_engine_output {
    struct tt_tensor_view view; /* of all rows of the run */
    size_t *row_starts; /* BYTES of a batched model: rows + 1 offsets; owned. Else NULL: all rows
                           have equal size */
    void *memory;       /* freed with the result; may be NULL */
    void *handle;       /* the engine's; passed to `dispose` */
};

struct tt_engine_result {
    struct tt_refcount references;
    bool batched;
    int32_t rows;
    int32_t output_count;
    void (*dispose)(const void *context, void *handle); /* releases an output's handle */
    const void *context;
    struct tt_engine_output outputs[];
};

/* All outputs are empty. NULL if there is no memory. */
struct tt_engine_result *tt_engine_result_new(int32_t references, int32_t output_count,
                                              bool batched, int32_t rows);
/* Frees the result regardless of its references: for an engine that fails while filling it. */
void tt_engine_result_free(struct tt_engine_result *take_result);
/* For BYTES outputs of a batched model, after `view` is set: finds where each row begins. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_engine_result_index_rows(struct tt_engine_result *self, int32_t index);

/* Implement `output` and `result_release` of `struct tt_engine_ops` for any engine. */
void tt_engine_result_output(const struct tt_engine_result *result, int32_t index,
                             int32_t first_row, int32_t rows, struct tt_tensor_view *out_view);
void tt_engine_result_release(struct tt_engine_result *take_result);
/* Implements `state_release` for engines whose models have one step: nothing is kept of a request
 * between two tasks. */
void tt_engine_no_state_release(struct tt_engine_state *take_state);

#endif
