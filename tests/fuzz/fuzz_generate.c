/* Bodies of the generate extension: any bytes, for models of several signatures, and the event that
 * answers. Build with -fsanitize=fuzzer,address,undefined. The first byte chooses the model. */
/* covers: net/kserve/kserve_generate.c net/json/json_scan.c */
#include "fuzz/one_inference.h"

#include "net/json/json_scan.h"
#include "net/kserve/kserve_generate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum tt_err read_body(struct tt_kserve_request *request,
                             const struct tt_signature *signature, char *body, size_t length,
                             int64_t json_bytes, struct tt_error *why) {
    (void)json_bytes;
    return tt_kserve_generate_read(request, signature, body, length, TT_JSON_MAX_DEPTH, why);
}

/* An event has one line: what a client sends must not begin another one. */
static enum tt_err write_event(struct tt_kserve_answer *answer, struct tt_text *json,
                               struct tt_error *why) {
    enum tt_err err = tt_kserve_generate_write(answer, json, why);
    tt_assert(err || !memchr(json->bytes, '\n', json->length));
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct one_inference_form form = {read_body, write_event};
    if (size >= 1)
        one_inference_run(&form, data[0], data + 1, size - 1, -1);
    return 0;
}
