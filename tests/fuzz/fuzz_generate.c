/* Bodies of the generate extension: any bytes, for models of several signatures, and the event that
 * answers. Build with -fsanitize=fuzzer,address,undefined. The first byte chooses the model. */
#include "fuzz/one_inference.h"

#include "net/json/json_scan.h"
#include "net/kserve/kserve_generate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An event has one line: what a client sends must not begin another one. */
static void answer(struct tt_port *port, struct tt_kserve_request *request,
                   struct tt_served_model *model, struct tt_inference *inference) {
    one_inference_compute(port, request, inference);
    struct tt_kserve_answer out;
    struct tt_text json;
    struct tt_error why;
    tt_text_init(&json);
    tt_kserve_answer_fill(&out, request, model, inference);
    enum tt_err err = tt_kserve_generate_write(&out, &json, &why);
    tt_assert(err == TT_OK || err == TT_ERR_INVALID);
    tt_assert(err || !memchr(json.bytes, '\n', json.length));
    tt_text_fini(&json);
    tt_inference_release(inference);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const models[] = {"identity", "addsub", "strings"};
    if (size < 1)
        return 0;
    struct tt_serving serving;
    struct tt_served_model *model = NULL;
    struct tt_error why;
    struct tt_port *port = one_inference_port(&serving);
    enum tt_err err = tt_serving_find(port, models[data[0] % 3], "", &model, &why);
    tt_assert(err == TT_OK);
    size_t length = size - 1;
    char *body = malloc(length ? length : 1);
    memcpy(body, data + 1, length);
    struct tt_kserve_request request;
    struct tt_inference *inference;
    tt_kserve_request_init(&request);
    strcpy(request.target.model, models[data[0] % 3]);
    err = tt_kserve_generate_read(&request, tt_served_model_signature(model), body, length,
                                  TT_JSON_MAX_DEPTH, &why);
    if (!err)
        err = tt_kserve_begin(&request, port, model, &inference, &why);
    free(body);
    if (!err)
        answer(port, &request, model, inference);
    one_inference_end(&serving, port, &request, err, &why);
    return 0;
}
