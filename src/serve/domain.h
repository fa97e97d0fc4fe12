/* A domain in real time: the mechanism with its policy on one side, executors of an engine on the
 * other.
 *
 * It carries the mechanism as the simulator does in virtual time: it reports to the mechanism what
 * happened, hands its tasks to the engine, and returns ended requests through struct
 * tt_domain_client. All of it runs in turns of the scheduler (serve/scheduler.h), one at a time, on
 * any thread. The exception is tt_domain_done(), which an executor's thread calls, and which only
 * pushes to a list.
 *
 * Life: _new(), models are added and removed, _free() without models or after the last turn. It
 * never decides; its policy does. Implemented in domain.c. */
#ifndef TT_SERVE_DOMAIN_H
#define TT_SERVE_DOMAIN_H

#include "base/threads/push_list.h"
#include "core/mechanism.h"
#include "policy/policy.h"
#include "record/recorder_streams.h"
#include "record/trace.h"
#include "serve/cell_tasks.h"
#include "serve/domain_answers.h"
#include "serve/domain_meter.h"
#include "serve/domain_watch.h"
#include "serve/inference_end.h"
#include "serve/pace.h"

enum {
    TT_DOMAIN_MAX_MODELS = 256,
    TT_DOMAIN_MAX_EXECUTORS = 4096, /* each is a thread */
    TT_DOMAIN_MAX_BATCH = 1024,     /* rows */
    /* One runs, one waits behind it, so that the executor continues while its completion is on its
       way to the scheduler. */
    TT_DOMAIN_DEPTH = 2,
    TT_DOMAIN_STEP_ENDS = 512, /* a task's step ends that are kept */
};

struct tt_domain_task; /* an engine task with room for its members */

struct tt_domain {
    struct tt_mechanism mechanism;
    struct tt_engine *engine;
    const struct tt_limits *limits;
    char *policy;                             /* its name */
    struct tt_option options[TT_MAX_OPTIONS]; /* the strings are owned */
    int32_t option_count;
    int32_t first_executor; /* of the engine; the domain's executor e is first_executor + e there */
    int32_t executor_count;
    int32_t depth;
    /* A task uses a place in the arrays below: that of its place on its executor. They change only
     * when a run is given up (serve/domain_watch.h). */
    int32_t *places;              /* [executor_count * depth] */
    struct tt_domain_task *tasks; /* [place_count], as the arrays below */
    int32_t place_count;          /* executor_count * depth + TT_DOMAIN_SPARES */
    struct tt_engine_member *members;
    int64_t *step_ends;   /* [place_count][TT_DOMAIN_STEP_ENDS] */
    int32_t *step_rounds; /* the same */
    struct tt_cell_tasks cell_tasks;
    struct tt_push_list done;  /* struct tt_domain_task of the executors */
    struct tt_list collecting; /* of them, in that order; between turns those that came too early */
    struct tt_domain_answers answers;
    int32_t model_count;
    struct tt_served_model **models; /* [model_capacity]; NULL: none */
    struct tt_list input_rings;      /* of its models, if the policy waits for inputs */
    struct tt_list *decided;         /* borrowed; see tt_domain_hand_over */
    struct tt_domain_client client;
    bool has_news;    /* something happened since it last decided */
    bool is_threaded; /* other threads report to its policy, too: it always decides */
    int64_t next_at;  /* as of its last decision */
    struct tt_domain_meter meter;
    struct tt_domain_watch watch;
    struct tt_pace pace;
    struct tt_recorder_streams recording;
    struct tt_trace_tap *tap; /* NULL: no trace is kept */
    struct tt_domain *next;
};

struct tt_domain_options {
    struct tt_engine *engine;
    int32_t first_executor, executor_count;
    const int32_t *devices; /* [executor_count]: the device of each; NULL: all belong to one */
    int32_t depth; /* tasks on an executor at once, one of which runs; 0: TT_DOMAIN_DEPTH */
    int32_t model_capacity;
    int32_t max_batch;
    const struct tt_limits *limits; /* borrowed for the domain's life */
    struct tt_list *decided;        /* where decided tasks go; borrowed */
    const char *policy;
    const struct tt_option *options;
    int32_t option_count;
    struct tt_recorder *recorder; /* records every event; NULL: none */
    struct tt_trace *trace;       /* keeps the latest events; NULL: none */
    /* S6: if the policy splits into halves, it is scheduled on so many threads of its own, which
     * wake the scheduler; 0: none. */
    int32_t scheduler_threads;
    struct tt_domain_client client;
};

/* True if the policy of that name works by cells (core/cell_graph.h), not by requests. */
bool tt_domain_works_by_cells(const char *policy);
/* How many tasks the policy may queue on an executor if its model asks for `asked` (0: the model
 * does not ask). */
int32_t tt_domain_depth(const char *policy, int32_t asked);
TT_MUST_CHECK enum tt_err tt_domain_new(const struct tt_domain_options *options,
                                        struct tt_domain **out_domain, struct tt_error *why);
void tt_domain_free(struct tt_domain *take_domain);
/* Takes the loaded model in. Its domain must be NULL. Errors: NO_MEMORY; it is not in then. */
TT_MUST_CHECK enum tt_err tt_domain_add_model(struct tt_domain *self, int64_t now,
                                              struct tt_served_model *model);
/* Takes the model out; no request of it is left. */
void tt_domain_remove_model(struct tt_domain *self, int64_t now, struct tt_served_model *model);

/* E7: requests are answered with their batches from now on, whatever the engine can: for observers
 * that expect it. No request has arrived. */
void tt_domain_answer_whole(struct tt_domain *self);
/* True if its policy waits until a request's input is in the engine's memory. */
bool tt_domain_awaits_inputs(const struct tt_domain *self);
/* Reports inputs that got slots after they waited for them. */
void tt_domain_take_inputs(struct tt_domain *self, int64_t now);

/* From a port's mailbox: a submitted inference, or the cancellation of one. */
void tt_domain_submit(struct tt_domain *self, int64_t now, struct tt_inference *inference);
void tt_domain_cancel(struct tt_domain *self, int64_t now, struct tt_inference *inference);
/* No new requests of the model will come. */
void tt_domain_drain_model(struct tt_domain *self, int64_t now, struct tt_served_model *model);
/* Takes in what executors finished. Time: by what they did, not by how many there are. */
void tt_domain_collect(struct tt_domain *self, int64_t now);
/* Decides, if anything happened or its instant has come. Returns when it must decide next. */
int64_t tt_domain_decide(struct tt_domain *self, int64_t now);
/* A turn leaves the tasks that it decided in a list of all domains. After the turn, and before the
 * next one, the same thread hands them over, in order and outside the turn. The first task goes to
 * its executor. If the executor is idle and such tasks were always short (serve/short_runs.h), it
 * runs here instead. `spent_ns`: what the caller has already spent on such runs (TT_NEVER: it does
 * none). Returns how long the task ran here, 0 if it did not. */
int64_t tt_domain_hand_over(struct tt_list *decided, int64_t spent_ns);
/* For observers of TT_EVENT_FINISHED: when step `step` (first_step .. last_step_done) of the task
 * ended; TT_NEVER: unknown. */
int64_t tt_domain_step_ended_at(const struct tt_task *task, int32_t step);
/* How often that step ran by then: the rounds of sequences, else 1. For a recurrent block of
 * several steps see engine/engine.h. */
int32_t tt_domain_step_rounds(const struct tt_task *task, int32_t step);
/* The inference of a request that an observer is notified of; NULL: its end was reported, and only
 * cells of it are still in flight. */
static inline struct tt_inference *tt_domain_inference_of(const struct tt_request *request) {
    return request->reported ? NULL : request->user;
}
/* An executor of the engine finished a task of a domain: to the domain's list. Executor's thread,
 * which touches neither afterwards: a turn may already have freed the domain. */
void tt_domain_done(struct tt_device_task *task);
/* Asserts that the domain's books agree with each other and with the mechanism. O(everything). In a
 * turn. */
void tt_domain_check(const struct tt_domain *self);

#endif
