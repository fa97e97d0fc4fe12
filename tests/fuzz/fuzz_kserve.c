/* Infer requests: any bytes as a body, with and without a binary tail, for models of several
 * signatures. Build with -fsanitize=fuzzer,address,undefined. The first byte chooses the model, the
 * second where the JSON ends. */
#include "unit/net/fake_serving.h"

#include "net/json/json_scan.h"
#include "net/kserve/kserve_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void no_wake(void *context) { (void)context; }

static void on_done(void *context, struct tt_inference *inference, enum tt_err err,
                    const char *reason) {
    (void)inference;
    (void)err;
    (void)reason;
    *(bool *)context = true;
}

static void answer(struct tt_port *port, struct tt_kserve_request *request,
                   struct tt_served_model *model, struct tt_inference *inference) {
    bool done = false;
    tt_inference_submit(inference, &request->options, on_done, &done);
    tt_port_drain(port);
    tt_assert(done);
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
    struct tt_port *port = NULL;
    struct tt_served_model *model = NULL;
    struct tt_error why;
    fake_serving_init(&serving);
    enum tt_err err = tt_serving_open_port(&serving, no_wake, NULL, &port, &why);
    tt_assert(err == TT_OK);
    err = tt_serving_find(port, models[data[0] % 3], "", &model, &why);
    tt_assert(err == TT_OK);
    size_t length = size - 2;
    char *body = malloc(length ? length : 1);
    memcpy(body, data + 2, length);
    int64_t json_bytes = data[1] < 128 ? -1 : (int64_t)length - (data[1] - 128);
    struct tt_kserve_request request;
    struct tt_inference *inference;
    tt_kserve_request_init(&request);
    strcpy(request.target.model, models[data[0] % 3]);
    const struct tt_kserve_json_body read = {body, length, json_bytes, TT_JSON_MAX_DEPTH};
    err = tt_kserve_json_read(&request, tt_served_model_signature(model), &read, &why);
    if (!err)
        err = tt_kserve_begin(&request, port, model, &inference, &why);
    free(body);
    if (!err)
        answer(port, &request, model, inference);
    else
        tt_assert(why.text[0] != '\0');
    tt_kserve_request_fini(&request);
    tt_port_close(port);
    fake_serving_fini(&serving);
    return 0;
}
