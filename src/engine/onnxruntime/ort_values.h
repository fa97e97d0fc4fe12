/* A cache of ONNX Runtime values over memory that is used repeatedly.
 *
 * A value is a pointer, a type and a shape. Making one costs as much as the bookkeeping of several
 * cells. The batches of a recurrent model use few addresses, so values are kept from batch to
 * batch. They are found by address, type and shape, in a table of fixed size: a hash leads to a set
 * of a few, in which a new entry replaces the oldest. A value says nothing of the contents of its
 * memory, so a cached value is always valid.
 *
 * One thread at a time. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_VALUES_H
#define TT_ENGINE_ONNXRUNTIME_ORT_VALUES_H

#include "core/tensor.h"
#include "engine/engine.h"
#include "engine/onnxruntime/ort_library.h"

enum {
    TT_ORT_VALUES_SETS = 64,
    TT_ORT_VALUES_WAYS = 4, /* of a set */
    TT_ORT_VALUES_AT_ONCE = 2 * TT_MAX_TENSORS
};

/* All zero at first. */
struct tt_ort_values {
    const struct tt_ort_library *library; /* NULL: no value was made yet */
    struct tt_ort_kept_value {
        OrtValue *value; /* NULL: none */
        const void *bytes;
        enum tt_dtype dtype;
        struct tt_shape shape;
    } kept[TT_ORT_VALUES_SETS][TT_ORT_VALUES_WAYS];
    uint8_t oldest[TT_ORT_VALUES_SETS]; /* the way that the next new value of the set gets */
    int32_t replaced_count;
    OrtValue *replaced[TT_ORT_VALUES_AT_ONCE]; /* may still be in use until tt_ort_values_settle */
};

void tt_ort_values_fini(struct tt_ort_values *self);
/* A value of the view; not for BYTES. Valid until tt_ort_values_settle; at most
 * TT_ORT_VALUES_AT_ONCE until then. Errors: as tt_ort_value_new. */
TT_MUST_CHECK enum tt_err tt_ort_values_find(struct tt_ort_values *self,
                                             const struct tt_ort_library *library,
                                             enum tt_dtype dtype, const struct tt_tensor_view *view,
                                             OrtValue **out_value, struct tt_error *why);
/* Ends the use of all values that were found. */
void tt_ort_values_settle(struct tt_ort_values *self);

#endif
