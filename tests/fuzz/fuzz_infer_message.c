/* Infer requests in protobuf: any bytes as a message, for the models of the fake server. Build with
 * -fsanitize=fuzzer,address,undefined. */
/* covers: net/grpc/infer_read.c net/grpc/infer_contents.c net/grpc/infer_write.c */
#include "fuzz/one_inference.h"

#include "net/grpc/infer_message.h"
#include "net/kserve/shared_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void released(struct tt_http2_message *message) { (void)message; }

static void answer(struct tt_port *port, struct tt_kserve_request *request,
                   struct tt_served_model *model, struct tt_inference *inference) {
    one_inference_compute(port, request, inference);
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
    struct tt_served_model *model = NULL;
    struct tt_error why;
    struct tt_kserve_request request;
    struct tt_inference *inference;
    bool wants_final;
    struct tt_port *port = one_inference_port(&serving);
    char *bytes = malloc(size ? size : 1);
    memcpy(bytes, data, size);
    why.text[0] = '\0';
    tt_kserve_request_init(&request);
    struct tt_shared_memory *memory = tt_shared_memory_new(); /* without regions */
    request.memory = memory;
    enum tt_err err = tt_infer_message_read(&request, bytes, size, &wants_final, &why);
    if (!err && strcmp(request.target.model, "held") == 0)
        err = tt_fail(TT_ERR_INVALID, &why, "this one never answers");
    if (!err)
        err = tt_serving_find(port, request.target.model, request.target.version, &model, &why);
    if (!err)
        err = tt_kserve_begin(&request, port, model, &inference, &why);
    free(bytes);
    if (!err)
        answer(port, &request, model, inference);
    one_inference_end(&serving, port, &request, err, &why);
    tt_shared_memory_free(memory);
    return 0;
}
