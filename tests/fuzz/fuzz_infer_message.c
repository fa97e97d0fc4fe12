/* Infer requests in protobuf: any bytes as a message, for the models of the fake server. Build with
 * -fsanitize=fuzzer,address,undefined. */
#include "unit/net/fake_serving.h"

#include "net/grpc/infer_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void no_wake(void *context) { (void)context; }

static void on_done(void *context, struct tt_inference *inference, enum tt_err err,
                    const char *reason) {
    (void)inference;
    (void)err;
    (void)reason;
    *(bool *)context = true;
}

static void released(struct tt_http2_message *message) { (void)message; }

static void answer(struct tt_port *port, struct tt_kserve_request *request,
                   struct tt_served_model *model, struct tt_inference *inference) {
    bool done = false;
    tt_inference_submit(inference, &request->options, on_done, &done);
    tt_port_drain(port);
    tt_assert(done);
    struct tt_kserve_answer out;
    struct tt_http2_message message;
    tt_http2_message_init(&message, released);
    tt_kserve_answer_fill(&out, request, model, inference);
    bool is_written = tt_infer_message_write(&out, (struct tt_infer_form){true, true}, &message);
    tt_assert(is_written);
    tt_http2_message_fini(&message);
    tt_inference_release(inference);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tt_serving serving;
    struct tt_port *port = NULL;
    struct tt_served_model *model = NULL;
    struct tt_error why;
    struct tt_kserve_request request;
    struct tt_inference *inference;
    bool wants_final;
    fake_serving_init(&serving);
    enum tt_err err = tt_serving_open_port(&serving, no_wake, NULL, &port, &why);
    tt_assert(err == TT_OK);
    char *bytes = malloc(size ? size : 1);
    memcpy(bytes, data, size);
    why.text[0] = '\0';
    tt_kserve_request_init(&request);
    err = tt_infer_message_read(&request, bytes, size, &wants_final, &why);
    if (!err && strcmp(request.target.model, "held") == 0)
        err = tt_fail(TT_ERR_INVALID, &why, "this one never answers");
    if (!err)
        err = tt_serving_find(port, request.target.model, request.target.version, &model, &why);
    if (!err)
        err = tt_kserve_begin(&request, port, model, &inference, &why);
    free(bytes);
    if (!err)
        answer(port, &request, model, inference);
    else
        tt_assert(why.text[0] != '\0');
    tt_kserve_request_fini(&request);
    tt_port_close(port);
    fake_serving_fini(&serving);
    return 0;
}
