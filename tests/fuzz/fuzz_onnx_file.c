/* libFuzzer target: any bytes as an ONNX file: its signature, and the estimate of its memory. */
/* covers: model/onnx/onnx_file.c model/onnx/onnx_memory.c */
#include "model/onnx/onnx_file.h"
#include "model/onnx/onnx_memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tt_error why;
    struct tt_onnx_file *file = NULL;
    if (tt_onnx_file_parse("fuzz", data, size, &file, &why) == TT_OK) {
        tt_assert(file->input_count <= TT_MAX_TENSORS);
        tt_assert(file->output_count >= 1);
        free(file);
    }
    struct tt_onnx_memory memory;
    if (tt_onnx_memory_parse("fuzz", data, size, 8, &memory, &why) == TT_OK) {
        tt_assert(memory.weight_bytes >= 0);
        tt_assert(memory.largest_bytes >= 0);
    }
    return 0;
}
