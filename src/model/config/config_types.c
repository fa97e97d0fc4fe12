#include "model/config/config.h"

static const enum tt_dtype dtypes[] = {
    [INFERENCE__DATA_TYPE__TYPE_INVALID] = TT_DTYPE_NONE,
    [INFERENCE__DATA_TYPE__TYPE_BOOL] = TT_DTYPE_BOOL,
    [INFERENCE__DATA_TYPE__TYPE_UINT8] = TT_DTYPE_UINT8,
    [INFERENCE__DATA_TYPE__TYPE_UINT16] = TT_DTYPE_UINT16,
    [INFERENCE__DATA_TYPE__TYPE_UINT32] = TT_DTYPE_UINT32,
    [INFERENCE__DATA_TYPE__TYPE_UINT64] = TT_DTYPE_UINT64,
    [INFERENCE__DATA_TYPE__TYPE_INT8] = TT_DTYPE_INT8,
    [INFERENCE__DATA_TYPE__TYPE_INT16] = TT_DTYPE_INT16,
    [INFERENCE__DATA_TYPE__TYPE_INT32] = TT_DTYPE_INT32,
    [INFERENCE__DATA_TYPE__TYPE_INT64] = TT_DTYPE_INT64,
    [INFERENCE__DATA_TYPE__TYPE_FP16] = TT_DTYPE_FP16,
    [INFERENCE__DATA_TYPE__TYPE_FP32] = TT_DTYPE_FP32,
    [INFERENCE__DATA_TYPE__TYPE_FP64] = TT_DTYPE_FP64,
    [INFERENCE__DATA_TYPE__TYPE_STRING] = TT_DTYPE_BYTES,
    [INFERENCE__DATA_TYPE__TYPE_BF16] = TT_DTYPE_BF16,
};

enum tt_dtype tt_model_config_dtype(Inference__DataType type) {
    return (size_t)type < TT_COUNT(dtypes) ? dtypes[type] : TT_DTYPE_NONE;
}

Inference__DataType tt_model_config_type(enum tt_dtype dtype) {
    for (size_t i = 0; i < TT_COUNT(dtypes); i++)
        if (dtypes[i] == dtype)
            return (Inference__DataType)i;
    return INFERENCE__DATA_TYPE__TYPE_INVALID;
}
