/* Values of ONNX Runtime over memory that comes again.
 *
 * Such a value is a pointer, a type and a shape, and making one costs as much as the bookkeeping of
 * several cells. A recurrent model's batches lie in few places, so values are kept from batch to
 * batch and found by what they are; where two fall on one place of the table the older one goes. A
 * value that is found is right whatever has become of its memory meanwhile: it says nothing of it.
 *
 * One thread at a time. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_VALUES_H
#define TT_ENGINE_ONNXRUNTIME_ORT_VALUES_H

#include "core/tensor.h"
#include "engine/engine.h"
#include "engine/onnxruntime/ort_library.h"

enum { TT_ORT_VALUES_KEPT = 128, TT_ORT_VALUES_AT_ONCE = 2 * TT_MAX_TENSORS };

/* All zero in the beginning. */
struct tt_ort_values {
    const struct tt_ort_library *library; /* NULL: nothing was found yet */
    struct tt_ort_kept_value {
        OrtValue *value; /* NULL: none */
        const void *bytes;
        enum tt_dtype dtype;
        struct tt_shape shape;
    } kept[TT_ORT_VALUES_KEPT];
    int32_t replaced_count;
    OrtValue *replaced[TT_ORT_VALUES_AT_ONCE]; /* perhaps still in use */
};

void tt_ort_values_fini(struct tt_ort_values *self);
/* A value of the view, not of BYTES; good until tt_ort_values_settle, before which at most
 * TT_ORT_VALUES_AT_ONCE are found. Errors: as tt_ort_value_new. */
TT_MUST_CHECK enum tt_err tt_ort_values_find(struct tt_ort_values *self,
                                             const struct tt_ort_library *library,
                                             enum tt_dtype dtype, const struct tt_tensor_view *view,
                                             OrtValue **out_value, struct tt_error *why);
/* What was found is not in use any more. */
void tt_ort_values_settle(struct tt_ort_values *self);

#endif
