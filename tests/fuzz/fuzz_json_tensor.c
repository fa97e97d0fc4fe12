/* JSON arrays into tensors: any text, any type. What is taken can be written, and reads back to the
 * same bytes. Build with -fsanitize=fuzzer,address,undefined. The first byte chooses the type, the
 * second the number of elements. */
/* covers: net/json/json_tensor.c net/json/json_scan.c net/json/json_float.c */
#include "net/json/json_tensor.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum tt_err read_tensor(const char *text, size_t length, enum tt_dtype dtype, int64_t count,
                               uint8_t **out_bytes, size_t *out_size) {
    struct tt_error why;
    struct tt_json json;
    size_t size_bytes = (size_t)count * tt_dtype_bytes(dtype);
    if (dtype == TT_DTYPE_BYTES) {
        tt_json_init(&json, text, length, &why);
        enum tt_err err = tt_json_tensor_measure(&json, count, &size_bytes);
        if (err)
            return err;
    }
    uint8_t *bytes = malloc(size_bytes ? size_bytes : 1);
    tt_json_init(&json, text, length, &why);
    enum tt_err err = tt_json_tensor_read(&json, dtype, count, bytes, size_bytes);
    if (err) {
        free(bytes);
        return err;
    }
    *out_bytes = bytes;
    *out_size = size_bytes;
    return TT_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    enum tt_dtype dtype = (enum tt_dtype)(TT_DTYPE_BOOL + data[0] % TT_DTYPE_BYTES);
    int64_t count = data[1] % 16;
    size_t length = size - 2;
    char *text = malloc(length ? length : 1);
    memcpy(text, data + 2, length);
    uint8_t *bytes, *again;
    size_t size_bytes, again_bytes;
    if (read_tensor(text, length, dtype, count, &bytes, &size_bytes) == TT_OK) {
        struct tt_text written;
        struct tt_error why;
        tt_text_init(&written);
        /* Text that is not UTF-8 comes in, but does not go out. */
        if (tt_json_tensor_write(dtype, count, bytes, size_bytes, &written, &why) == TT_OK) {
            enum tt_err err =
                read_tensor(written.bytes, written.length, dtype, count, &again, &again_bytes);
            tt_assert(err == TT_OK);
            tt_assert(again_bytes == size_bytes);
            tt_assert(memcmp(bytes, again, size_bytes) == 0);
            free(again);
        } else {
            tt_assert(dtype == TT_DTYPE_BYTES);
        }
        tt_text_fini(&written);
        free(bytes);
    }
    free(text);
    return 0;
}
