/* libFuzzer target: any bytes as an ONNX file. */
#include "model/onnx/onnx_file.h"

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
    return 0;
}
