/* One inference on the fake server, for fuzzers of requests: a port that wakes no loop, and the
 * inference computed to its end. All functions are inline; there is no .c file. */
#ifndef TT_TESTS_FUZZ_ONE_INFERENCE_H
#define TT_TESTS_FUZZ_ONE_INFERENCE_H

#include "unit/net/fake_serving.h"

#include "net/kserve/kserve_request.h"

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

#endif
