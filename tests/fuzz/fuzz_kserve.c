/* Infer requests: any bytes as a body, with and without a binary tail, for models of several
 * signatures. Build with -fsanitize=fuzzer,address,undefined. The first byte chooses the model, the
 * second where the JSON ends. */
#include "fuzz/one_inference.h"

#include "net/json/json_scan.h"
#include "net/kserve/kserve_json.h"
#include "net/kserve/shared_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answer(struct tt_port *port, struct tt_kserve_request *request,
                   struct tt_served_model *model, struct tt_inference *inference) {
    one_inference_compute(port, request, inference);
    struct tt_kserve_answer out;
    struct tt_kserve_parts parts;
    struct tt_text json;
    struct tt_error why;
    tt_text_init(&json);
    tt_kserve_answer_fill(&out, request, model, inference);
    enum tt_err err = tt_kserve_json_write(&out, &json, &parts, &why);
    tt_assert(err == TT_OK || err == TT_ERR_INVALID);
    tt_text_fini(&json);
    tt_inference_release(inference);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const models[] = {"identity", "addsub", "strings"};
    if (size < 2)
        return 0;
    struct tt_serving serving;
    struct tt_served_model *model = NULL;
    struct tt_error why;
    struct tt_port *port = one_inference_port(&serving);
    enum tt_err err = tt_serving_find(port, models[data[0] % 3], "", &model, &why);
    tt_assert(err == TT_OK);
    size_t length = size - 2;
    char *body = malloc(length ? length : 1);
    memcpy(body, data + 2, length);
    int64_t json_bytes = data[1] < 128 ? -1 : (int64_t)length - (data[1] - 128);
    struct tt_kserve_request request;
    struct tt_inference *inference;
    tt_kserve_request_init(&request);
    struct tt_shared_memory *memory = tt_shared_memory_new(); /* without regions */
    request.memory = memory;
    strcpy(request.target.model, models[data[0] % 3]);
    const struct tt_kserve_json_body read = {body, length, json_bytes, TT_JSON_MAX_DEPTH};
    err = tt_kserve_json_read(&request, tt_served_model_signature(model), &read, &why);
    if (!err)
        err = tt_kserve_begin(&request, port, model, &inference, &why);
    free(body);
    if (!err)
        answer(port, &request, model, inference);
    one_inference_end(&serving, port, &request, err, &why);
    tt_shared_memory_free(memory);
    return 0;
}
