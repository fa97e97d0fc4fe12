/* One inference on the fake server, for fuzzers of requests: a port that wakes no loop, the
 * inference computed to its end, and the whole of it for the forms that carry JSON. All functions
 * are inline; there is no .c file. */
#ifndef TT_TESTS_FUZZ_ONE_INFERENCE_H
#define TT_TESTS_FUZZ_ONE_INFERENCE_H

#include "unit/net/fake_serving.h"

#include "net/kserve/kserve_request.h"
#include "net/kserve/shared_memory.h"

static inline void one_inference_no_wake(void *context) { (void)context; }

static inline void one_inference_done(void *context, struct tt_inference *inference,
                                      enum tt_err err, const char *reason) {
    (void)inference;
    (void)err;
    (void)reason;
    *(bool *)context = true;
}

static inline struct tt_port *one_inference_port(struct tt_serving *serving) {
    struct tt_port *port = NULL;
    struct tt_error why;
    fake_serving_init(serving);
    enum tt_err err = tt_serving_open_port(serving, one_inference_no_wake, NULL, &port, &why);
    tt_assert(err == TT_OK);
    return port;
}

static inline void one_inference_compute(struct tt_port *port, struct tt_kserve_request *request,
                                         struct tt_inference *inference) {
    bool done = false;
    tt_inference_submit(inference, &request->options, one_inference_done, &done);
    tt_port_drain(port);
    tt_assert(done);
}

/* The end: `why` must say why there was an error. */
static inline void one_inference_end(struct tt_serving *serving, struct tt_port *take_port,
                                     struct tt_kserve_request *request, enum tt_err err,
                                     const struct tt_error *why) {
    tt_assert(!err || why->text[0] != '\0');
    tt_kserve_request_fini(request);
    tt_port_close(take_port);
    fake_serving_fini(serving);
}

/* A form in which a model's requests and answers are written, without the model's name. */
struct one_inference_form {
    /* Changes `body` at will. */
    enum tt_err (*read)(struct tt_kserve_request *request, const struct tt_signature *signature,
                        char *body, size_t length, int64_t json_bytes, struct tt_error *why);
    enum tt_err (*write)(struct tt_kserve_answer *answer, struct tt_text *json,
                         struct tt_error *why);
};

static inline void one_inference_answer(const struct one_inference_form *form, struct tt_port *port,
                                        struct tt_kserve_request *request,
                                        struct tt_served_model *model,
                                        struct tt_inference *inference) {
    struct tt_kserve_answer answer;
    struct tt_text json;
    struct tt_error why;
    one_inference_compute(port, request, inference);
    tt_text_init(&json);
    tt_kserve_answer_fill(&answer, request, model, inference);
    enum tt_err err = form->write(&answer, &json, &why);
    tt_assert(err == TT_OK || err == TT_ERR_INVALID);
    tt_text_fini(&json);
    tt_inference_release(inference);
}

/* One request with the body `bytes`, to a model that `choice` chooses. `json_bytes`: where the JSON
 * ends; -1: it is all. */
static inline void one_inference_run(const struct one_inference_form *form, uint8_t choice,
                                     const uint8_t *bytes, size_t length, int64_t json_bytes) {
    static const char *const models[] = {"identity", "addsub", "strings"};
    const char *name = models[choice % 3];
    struct tt_serving serving;
    struct tt_served_model *model = NULL;
    struct tt_error why;
    struct tt_port *port = one_inference_port(&serving);
    enum tt_err err = tt_serving_find(port, name, "", &model, &why);
    tt_assert(err == TT_OK);
    char *body = malloc(length ? length : 1);
    memcpy(body, bytes, length);
    struct tt_kserve_request request;
    struct tt_inference *inference;
    tt_kserve_request_init(&request);
    struct tt_shared_memory *memory = tt_shared_memory_new(); /* without regions */
    request.memory = memory;
    strcpy(request.target.model, name);
    err = form->read(&request, tt_served_model_signature(model), body, length, json_bytes, &why);
    if (!err)
        err = tt_kserve_begin(&request, port, model, &inference, &why);
    free(body);
    if (!err)
        one_inference_answer(form, port, &request, model, inference);
    one_inference_end(&serving, port, &request, err, &why);
    tt_shared_memory_free(memory);
}

#endif
