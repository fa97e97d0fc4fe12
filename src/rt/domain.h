/* A domain in real time: the mechanism with its policy on one side, executors of an engine on the
 * other.
 *
 * It is the carrier that the simulator is in virtual time: it tells the mechanism what happened,
 * hands its tasks to the engine, and gives finished requests back to their ports. All of it runs in
 * the scheduler's turns (one at a time, on whichever thread) but for `tt_domain_done`, which the
 * engine calls on an executor's thread and which only pushes to a ring. */
#ifndef TT_RT_DOMAIN_H
#define TT_RT_DOMAIN_H

#include "base/ring.h"
#include "core/mechanism.h"
#include "policy/policy.h"
#include "rt/domain_meter.h"
#include "rt/infer.h"
#include "rt/recorder.h"
#include "rt/trace.h"

enum {
    TT_DOMAIN_MAX_MODELS = 256,
    TT_DOMAIN_MAX_BATCH = 1024, /* rows */
};

struct tt_domain_task; /* an engine task with room for its members */

struct tt_domain {
    struct tt_mechanism mechanism;
    struct tt_engine *engine;
    const struct tt_limits *limits;
    char *policy;                             /* its name */
    struct tt_option options[TT_MAX_OPTIONS]; /* the strings are ours */
    int32_t option_count;
    int32_t first_executor; /* of the engine; the domain's executor e is first_executor + e there */
    int32_t executor_count;
    int32_t depth;
    struct tt_domain_task *tasks; /* [executor_count * depth] */
    struct tt_engine_member *members;
    struct tt_ring *done; /* per executor: struct tt_engine_task * */
    int32_t model_count;
    struct tt_served_model **models; /* [model_capacity]; NULL: none */
    struct tt_list input_rings;      /* of its models, where the policy waits for inputs */
    struct tt_domain_meter meter;
    struct tt_recorder_stream *recording; /* NULL: nobody records */
    struct tt_trace_tap *tap;             /* NULL: no trace is kept */
    struct tt_domain *next;
};

struct tt_domain_options {
    struct tt_engine *engine;
    int32_t first_executor, executor_count;
    int32_t model_capacity;
    int32_t max_batch;
    const struct tt_limits *limits; /* borrowed for the domain's life */
    const char *policy;
    const struct tt_option *options;
    int32_t option_count;
    struct tt_recorder *recorder; /* hears everything; NULL: none */
    struct tt_trace *trace;       /* keeps what was last; NULL: none */
    /* S6: scheduled on so many threads of its own, if the policy splits into halves; 0: none. They
     * wake the scheduler's thread. */
    int32_t scheduler_threads;
    void (*wake)(void *context);
    void *wake_context;
};

TT_MUST_CHECK enum tt_err tt_domain_new(const struct tt_domain_options *options,
                                        struct tt_domain **out_domain, struct tt_message *why);
void tt_domain_free(struct tt_domain *take_domain);
/* Takes the (loaded) model in. */
void tt_domain_add_model(struct tt_domain *self, int64_t now, struct tt_served_model *model);
/* No request of it is left. */
void tt_domain_remove_model(struct tt_domain *self, int64_t now, struct tt_served_model *model);

/* Does its policy wait until a request's input lies in the engine's memory? */
bool tt_domain_awaits_inputs(const struct tt_domain *self);
/* Tells of inputs that came to their slots after having waited for them. */
void tt_domain_take_inputs(struct tt_domain *self, int64_t now);

/* From a port's ring. */
void tt_domain_submit(struct tt_domain *self, int64_t now, struct tt_infer *infer);
void tt_domain_cancel(struct tt_domain *self, int64_t now, struct tt_infer *infer);
/* Takes in what executors finished. */
void tt_domain_collect(struct tt_domain *self, int64_t now);
/* An executor of the engine finished a task: to the domain's ring. Executor's thread. */
void tt_domain_done(struct tt_domain *self, struct tt_engine_task *task);

#endif
