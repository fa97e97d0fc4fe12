/* Infer requests: any bytes as a body, with and without a binary tail, for models of several
 * signatures. Build with -fsanitize=fuzzer,address,undefined. The first byte chooses the model, the
 * second where the JSON ends. */
/* covers: net/kserve/kserve_json.c net/json/json_scan.c */
#include "fuzz/one_inference.h"

#include "net/json/json_scan.h"
#include "net/kserve/kserve_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum tt_err read_body(struct tt_kserve_request *request,
                             const struct tt_signature *signature, char *body, size_t length,
                             int64_t json_bytes, struct tt_error *why) {
    const struct tt_kserve_json_body read = {body, length, json_bytes, TT_JSON_MAX_DEPTH};
    return tt_kserve_json_read(request, signature, &read, why);
}

static enum tt_err write_answer(struct tt_kserve_answer *answer, struct tt_text *json,
                                struct tt_error *why) {
    struct tt_kserve_parts parts;
    return tt_kserve_json_write(answer, json, &parts, why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct one_inference_form form = {read_body, write_answer};
    if (size < 2)
        return 0;
    int64_t length = (int64_t)size - 2;
    one_inference_run(&form, data[0], data + 2, (size_t)length,
                      data[1] < 128 ? -1 : length - (data[1] - 128));
    return 0;
}
