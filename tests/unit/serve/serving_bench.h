/* A server on an emulated engine, and clients that wait for their answers: shared by the tests of
 * src/serve. Failures inside clients abort (tt_assert), because clients run on threads of their
 * own. */
#ifndef SERVING_BENCH_H
#define SERVING_BENCH_H

#include "base/instant.h"
#include "engine/emulated/emulated.h"
#include "policy/policy.h"
#include "serve/inference.h"
#include "serve/inference_state.h"
#include "serve/limits.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"
#include "serve/serving.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { BENCH_EXECUTORS = 2, BENCH_DOMAINS = 4 };

struct serving_bench {
    struct tt_serving *serving;
    struct tt_engine *engine;
    int32_t next_executor;
};

static inline int64_t bench_latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                                    int32_t last_step) {
    (void)rows;
    (void)length;
    (void)first_step;
    (void)last_step;
    return *(const int64_t *)context;
}

static inline void serving_bench_open(struct serving_bench *self) {
    struct tt_error why;
    *self = (struct serving_bench){0};
    tt_assert(tt_serving_open(&self->serving, &why) == TT_OK);
    struct tt_engine_options options = {BENCH_EXECUTORS * BENCH_DOMAINS, 2, tt_serving_done,
                                        self->serving};
    tt_assert(tt_emulated_engine_open(&options, &self->engine, &why) == TT_OK);
}

static inline void serving_bench_close(struct serving_bench *self) {
    tt_serving_close(self->serving);
    self->engine->ops->close(self->engine);
}

/* x [-1,4] INT32 and m [-1,2] INT32 to y (a copy of x) and z [-1,1] FP32 (zeros). */
static const struct tt_signature bench_fixed = {
    .batched = true,
    .max_batch = 8,
    .input_count = 2,
    .output_count = 2,
    .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, 4}}}, {"m", TT_DTYPE_INT32, {2, {-1, 2}}}},
    .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, 4}}}, {"z", TT_DTYPE_FP32, {2, {-1, 1}}}},
};

/* x [-1,-1,-1] INT8 to y, a copy. */
static const struct tt_signature bench_varying = {
    .batched = true,
    .max_batch = 8,
    .input_count = 1,
    .output_count = 1,
    .inputs = {{"x", TT_DTYPE_INT8, {3, {-1, -1, -1}}}},
    .outputs = {{"y", TT_DTYPE_INT8, {3, {-1, -1, -1}}}},
};

/* Adds a model whose batches take *latency_ns, whatever their size. */
static inline struct tt_served_model *serving_bench_add(struct serving_bench *self,
                                                        const struct tt_served_model_spec *spec,
                                                        const struct tt_signature *signature,
                                                        const int64_t *latency_ns,
                                                        const struct tt_serving_policy *policy) {
    struct tt_error why = {{0}};
    struct tt_served_model_spec full = *spec;
    full.version = full.version ? full.version : "1";
    full.platform = "emulated";
    full.config_json = "{}";
    full.slo_ns = full.slo_ns ? full.slo_ns : TT_NEVER;
    struct tt_served_model *model;
    tt_assert(tt_served_model_new(&full, &model) == TT_OK);
    tt_serving_add(self->serving, model);
    struct tt_engine_emulation load = {signature, 1, bench_latency, (void *)latency_ns};
    struct tt_engine_model *loaded;
    tt_assert(tt_emulated_engine_load(self->engine, &load, &loaded, &why) == TT_OK);
    struct tt_profile *profile;
    tt_assert(tt_profile_new_linear(1, *latency_ns + 1, signature->max_batch, &profile, &why) ==
              TT_OK);
    tt_assert(tt_served_model_loaded(model, loaded, profile, NULL) == TT_OK);
    enum tt_err err = tt_serving_place(self->serving, model, policy, self->engine, BENCH_EXECUTORS,
                                       &self->next_executor, &why);
    if (err)
        fprintf(stderr, "%s\n", why.text);
    tt_assert(err == TT_OK);
    return model;
}

static inline void serving_bench_start(struct serving_bench *self) {
    struct tt_error why;
    tt_assert(tt_serving_start(self->serving, &why) == TT_OK);
}

/* ---- clients ---- */

struct client {
    struct tt_port *port;
    int bell;
    int32_t waiting;           /* submitted, not done */
    int32_t ok, wrong, errors; /* done: with the right bytes, with others, with an error */
    int32_t by_error[16];      /* by -err */
    char why[1024];            /* of the last error */
    bool keeps;                /* the tests release */
};

static inline void client_wake(void *context) {
    struct client *self = context;
    uint64_t one = 1;
    ssize_t written = write(self->bell, &one, sizeof(one));
    tt_assert(written == sizeof(one));
}

static inline void client_open(struct client *self, struct tt_serving *serving) {
    struct tt_error why;
    *self = (struct client){.bell = eventfd(0, EFD_CLOEXEC)};
    tt_assert(self->bell >= 0);
    tt_assert(tt_serving_open_port(serving, client_wake, self, &self->port, &why) == TT_OK);
}

static inline void client_close(struct client *self) {
    tt_port_close(self->port);
    close(self->bell);
}

/* Until at most `left` requests are waiting; a server that is silent for a minute is broken. */
static inline void client_wait(struct client *self, int32_t left) {
    while (self->waiting > left) {
        struct pollfd bell = {self->bell, POLLIN, 0};
        int rang = poll(&bell, 1, 60000);
        tt_assert(rang == 1);
        uint64_t count;
        ssize_t got = read(self->bell, &count, sizeof(count));
        tt_assert(got == sizeof(count));
        tt_port_drain(self->port);
    }
}

static inline void client_done(void *context, struct tt_inference *inference, enum tt_err err,
                               const char *why) {
    struct client *self = context;
    self->waiting--;
    self->by_error[-err]++;
    if (err) {
        self->errors++;
        snprintf(self->why, sizeof(self->why), "%s", why);
    } else {
        /* Every byte of a request is its number's lowest, and the answer is a copy. */
        struct tt_tensor_view view;
        tt_inference_output(inference, 0, &view);
        bool good = view.shape.dims[0] == inference->rows && view.size_bytes > 0 &&
                    view.size_bytes == inference->inputs[0].size_bytes;
        for (size_t i = 0; good && i < view.size_bytes; i++)
            good = ((const char *)view.bytes)[i] == (char)(intptr_t)inference->priority;
        self->ok += good;
        self->wrong += !good;
    }
    if (!self->keeps)
        tt_inference_release(inference);
}

/* Begins a request of these shapes and fills it with the byte `fill`. */
static inline enum tt_err client_begin(struct client *self, struct tt_served_model *model,
                                       const struct tt_inference_shape *shapes, int32_t count,
                                       char fill, struct tt_inference **out_inference,
                                       struct tt_error *why) {
    size_t sizes[TT_MAX_TENSORS] = {0};
    enum tt_err err =
        tt_inference_begin(self->port, model, shapes, sizes, count, out_inference, why);
    for (int32_t i = 0; !err && i < count; i++) {
        size_t bytes;
        void *to = tt_inference_input(*out_inference, shapes[i].input, &bytes);
        memset(to, fill, bytes);
    }
    return err;
}

/* Submits; the byte travels as the priority, which levels 1..100 let through. */
static inline void client_submit(struct client *self, struct tt_inference *inference, char fill,
                                 int64_t timeout_ns) {
    struct tt_inference_options options = {.timeout_ns = timeout_ns, .priority = fill};
    self->waiting++;
    tt_inference_submit(inference, &options, client_done, self);
}

/* A request of `rows` rows to a model of bench_fixed. */
static inline struct tt_inference *client_send(struct client *self, struct tt_served_model *model,
                                               int32_t rows, char fill, int64_t timeout_ns) {
    struct tt_inference_shape shapes[] = {{0, {2, {rows, 4}}}, {1, {2, {rows, 2}}}};
    struct tt_inference *inference;
    struct tt_error why;
    tt_assert(client_begin(self, model, shapes, 2, fill, &inference, &why) == TT_OK);
    client_submit(self, inference, fill, timeout_ns);
    return inference;
}

/* What of the model's requests is accounted for, and what came. */
static inline int64_t bench_gone(const struct tt_served_model *model) {
    const struct tt_model_stats *stats = model->stats;
    int64_t gone = tt_counter_get(&stats->succeeded) + tt_counter_get(&stats->failed) +
                   tt_counter_get(&stats->cancelled) + tt_counter_get(&stats->rejected);
    for (size_t i = 0; i < TT_COUNT(stats->dropped); i++)
        gone += tt_counter_get(&stats->dropped[i]);
    return gone;
}

#endif
