/* The outputs of one run, shared by the members that were in it.
 *
 * An engine makes one with a reference per member, fills the outputs, and never touches it again.
 * Members read their rows where they lie, on any thread, and each drops its reference when its
 * answer has been written. */
#ifndef TT_ENGINE_ENGINE_RESULT_H
#define TT_ENGINE_ENGINE_RESULT_H

#include "base/threads/refcount.h"
#include "engine/engine.h"

#include <stdbool.h>

struct tt_engine_output {
    struct tt_tensor_view view; /* the whole run's */
    size_t *row_starts; /* BYTES of a batched model: rows + 1 offsets; owned. Else NULL: rows are
                           equal */
    void *memory;       /* freed with the result; may be NULL */
    void *handle;       /* the engine's; see `dispose` */
};

struct tt_engine_result {
    struct tt_refcount references;
    bool batched;
    int32_t rows;
    int32_t output_count;
    void (*dispose)(const void *context, void *handle); /* gives an output's handle back */
    const void *context;
    struct tt_engine_output outputs[];
};

/* All outputs empty. NULL when memory is out. */
struct tt_engine_result *tt_engine_result_new(int32_t references, int32_t output_count,
                                              bool batched, int32_t rows);
/* Frees it whatever its references: for an engine that fails half-way. */
void tt_engine_result_free(struct tt_engine_result *take_result);
/* For BYTES outputs of a batched model, once the view stands: finds where each row begins. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_engine_result_index_rows(struct tt_engine_result *self, int32_t index);

/* The operations of `struct tt_engine_ops`, for every engine. */
void tt_engine_result_output(const struct tt_engine_result *result, int32_t index,
                             int32_t first_row, int32_t rows, struct tt_tensor_view *out_view);
void tt_engine_result_release(struct tt_engine_result *take_result);

#endif
