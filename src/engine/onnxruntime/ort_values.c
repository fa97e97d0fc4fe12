#include "engine/onnxruntime/ort_values.h"

#include "engine/onnxruntime/ort_tensor.h"

void tt_ort_values_settle(struct tt_ort_values *self) {
    for (int32_t i = 0; i < self->replaced_count; i++)
        self->library->api->ReleaseValue(self->replaced[i]);
    self->replaced_count = 0;
}

void tt_ort_values_fini(struct tt_ort_values *self) {
    tt_ort_values_settle(self);
    for (int32_t set = 0; set < TT_ORT_VALUES_SETS; set++)
        for (int32_t way = 0; way < TT_ORT_VALUES_WAYS; way++)
            if (self->kept[set][way].value)
                self->library->api->ReleaseValue(self->kept[set][way].value);
    *self = (struct tt_ort_values){0};
}

/* Rows begin at regular distances and batches have any size, so both are mixed. */
static uint32_t set_of(const struct tt_tensor_view *view) {
    uint64_t mixed = (uint64_t)(uintptr_t)view->bytes * UINT64_C(0x9e3779b97f4a7c15);
    mixed ^= (uint64_t)view->shape.dims[0] * UINT64_C(0xc2b2ae3d27d4eb4f);
    return (uint32_t)(mixed >> 32) % TT_ORT_VALUES_SETS;
}

static bool is_of(const struct tt_ort_kept_value *kept, enum tt_dtype dtype,
                  const struct tt_tensor_view *view) {
    bool same = kept->value && kept->bytes == view->bytes && kept->dtype == dtype &&
                kept->shape.rank == view->shape.rank;
    for (int32_t d = 0; same && d < view->shape.rank; d++)
        same = kept->shape.dims[d] == view->shape.dims[d];
    return same;
}

/* Makes a value and keeps it in place of the oldest of its set. Not inlined: most values are found.
 */
TT_APART static enum tt_err make(struct tt_ort_values *self, uint32_t set,
                                 const struct tt_ort_library *library, enum tt_dtype dtype,
                                 const struct tt_tensor_view *view, OrtValue **out_value,
                                 struct tt_error *why) {
    tt_assert(dtype != TT_DTYPE_BYTES); /* its value would be a copy of the contents */
    self->library = library;
    OrtValue *value;
    enum tt_err err = tt_ort_value_new(library, dtype, view, &value, why);
    if (err)
        return err;
    struct tt_ort_kept_value *kept = &self->kept[set][self->oldest[set]];
    self->oldest[set] = (uint8_t)((self->oldest[set] + 1) % TT_ORT_VALUES_WAYS);
    if (kept->value) {
        tt_assert(self->replaced_count < TT_ORT_VALUES_AT_ONCE);
        self->replaced[self->replaced_count++] = kept->value;
    }
    *kept = (struct tt_ort_kept_value){
        .value = value, .bytes = view->bytes, .dtype = dtype, .shape = view->shape};
    *out_value = value;
    return TT_OK;
}

enum tt_err tt_ort_values_find(struct tt_ort_values *self, const struct tt_ort_library *library,
                               enum tt_dtype dtype, const struct tt_tensor_view *view,
                               OrtValue **out_value, struct tt_error *why) {
    tt_assert(!self->library || self->library == library);
    uint32_t set = set_of(view);
    const struct tt_ort_kept_value *kept = self->kept[set];
    for (int32_t way = 0; way < TT_ORT_VALUES_WAYS; way++)
        if (is_of(&kept[way], dtype, view)) {
            *out_value = kept[way].value;
            return TT_OK;
        }
    return make(self, set, library, dtype, view, out_value, why);
}
