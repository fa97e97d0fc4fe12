/* A domain in real time: the mechanism with its policy on one side, executors of an engine on the
 * other.
 *
 * It is the carrier that the simulator is in virtual time: it tells the mechanism what happened,
 * hands its tasks to the engine, and gives finished requests back to their ports. All of it runs in
 * the scheduler's turns (one at a time, on whichever thread) but for `tt_domain_done`, which the
 * engine calls on an executor's thread and which only pushes to a ring. */
#ifndef TT_SERVE_DOMAIN_H
#define TT_SERVE_DOMAIN_H

#include "base/ring.h"
#include "core/mechanism.h"
#include "policy/policy.h"
#include "record/recorder.h"
#include "record/trace.h"
#include "serve/cell_tasks.h"
#include "serve/domain_meter.h"
#include "serve/inference_end.h"
#include "serve/pace.h"

enum {
    TT_DOMAIN_MAX_MODELS = 256,
    TT_DOMAIN_MAX_BATCH = 1024, /* rows */
    /* One runs, one waits behind it, so that the executor goes on while its completion is on its
     * way to the scheduler. */
    TT_DOMAIN_DEPTH = 2,
    TT_DOMAIN_STEP_ENDS = 512, /* of a task's steps, so many ends are kept */
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
    int64_t *step_ends;   /* [executor_count * depth][TT_DOMAIN_STEP_ENDS] */
    int32_t *step_rounds; /* the same */
    struct tt_cell_tasks cell_tasks;
    struct tt_ring *done; /* per executor: struct tt_engine_task * */
    int32_t model_count;
    struct tt_served_model **models; /* [model_capacity]; NULL: none */
    struct tt_list input_rings;      /* of its models, where the policy waits for inputs */
    struct tt_list *decided;         /* borrowed; see tt_domain_hand_over */
    struct tt_domain_client client;
    bool has_news;    /* something to decide upon was told since it decided */
    bool is_threaded; /* others tell its policy, too: it is always asked */
    int64_t next_at;  /* as of when it last decided */
    struct tt_domain_meter meter;
    struct tt_pace pace;
    struct tt_recorder_stream *recording;         /* NULL: nobody records */
    struct tt_recorder_stream **party_recordings; /* [party_count], if it is threaded */
    int32_t party_count;
    struct tt_trace_tap *tap; /* NULL: no trace is kept */
    struct tt_domain *next;
};

struct tt_domain_options {
    struct tt_engine *engine;
    int32_t first_executor, executor_count;
    const int32_t *devices; /* [executor_count]: which each belongs to; NULL: all to one */
    int32_t depth;          /* tasks on an executor at once, one of them runs; 0: TT_DOMAIN_DEPTH */
    int32_t model_capacity;
    int32_t max_batch;
    const struct tt_limits *limits; /* borrowed for the domain's life */
    struct tt_list *decided;        /* where its tasks go when they are decided; borrowed */
    const char *policy;
    const struct tt_option *options;
    int32_t option_count;
    struct tt_recorder *recorder; /* hears everything; NULL: none */
    struct tt_trace *trace;       /* keeps what was last; NULL: none */
    /* S6: scheduled on so many threads of its own, if the policy splits into halves; 0: none. They
     * wake the scheduler's thread. */
    int32_t scheduler_threads;
    struct tt_domain_client client;
};

/* Does the policy of that name hand out cells (core/cell_graph.h), not requests? */
bool tt_domain_works_by_cells(const char *policy);
/* How many tasks it may have queued on an executor, where its model asks for so many (0: for none).
 */
int32_t tt_domain_depth(const char *policy, int32_t asked);
TT_MUST_CHECK enum tt_err tt_domain_new(const struct tt_domain_options *options,
                                        struct tt_domain **out_domain, struct tt_error *why);
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
void tt_domain_submit(struct tt_domain *self, int64_t now, struct tt_inference *inference);
void tt_domain_cancel(struct tt_domain *self, int64_t now, struct tt_inference *inference);
/* No new requests of the model are to be expected. */
void tt_domain_drain_model(struct tt_domain *self, int64_t now, struct tt_served_model *model);
/* Takes in what executors finished. */
void tt_domain_collect(struct tt_domain *self, int64_t now);
/* Decides, if anything happened or its time has come. Returns when its time comes next. */
int64_t tt_domain_decide(struct tt_domain *self, int64_t now);
/* A turn leaves the tasks that it decided in a list of all domains. After each turn, and before the
 * next, whoever took it hands them over, in order, out of the scheduler's lock: the first one goes
 * to its executor, or, if the executor is idle and the model's like were always over soon
 * (serve/short_runs.h), it runs here and now. `spent_ns`: what the caller has spent on such runs
 * already (TT_NEVER: it does none). Returns how long that took, 0 where it did not run here. */
int64_t tt_domain_hand_over(struct tt_list *decided, int64_t spent_ns);
/* For observers of TT_EVENT_FINISHED: when step `step` (first_step .. last_step_done) of the task
 * ended; TT_NEVER: it is not known. */
int64_t tt_domain_step_ended_at(const struct tt_task *task, int32_t step);
/* And how often it ran by then: the rounds of sequences, 1 of anything else. Of a recurrent block
 * of several steps as engine.h has it. */
int32_t tt_domain_step_rounds(const struct tt_task *task, int32_t step);
/* The request behind one that an observer hears of; NULL: its end was told, and cells of it are
 * still coming back. */
static inline struct tt_inference *tt_domain_inference_of(const struct tt_request *request) {
    return request->reported ? NULL : request->user;
}
/* An executor of the engine finished a task of a domain: to the domain's ring. Executor's thread.
 */
void tt_domain_done(struct tt_device_task *task);

#endif
