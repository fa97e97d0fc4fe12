/* One request to an ensemble, as a run of its steps.
 *
 * Life: begun with the client's inference (`whole`), whose inputs lie in its own memory; steps that
 * read only them begin at once, so a shape that does not fit is an error before submit. Submit
 * sends those steps. Whenever a step ends, the steps for which it was the last one missing begin
 * and are sent. They read the outputs where the engine left them: no byte is copied between steps,
 * unless an engine gathers inputs of different batches, or the part's policy keeps inputs in a
 * ring. The run ends with its last step, or with the first step that fails: the others are then
 * cancelled. A step is released when no step reads it any more; the whole is given back to its lane
 * when nothing reads any input of any step.
 *
 * Each step is an inference of the port, with the whole's client and priority, and a share of its
 * deadline (serve/ensemble.h). All of it runs on the port's thread. The whole itself never goes to
 * the scheduler. Implemented in ensemble_run.c. */
#ifndef TT_SERVE_ENSEMBLE_RUN_H
#define TT_SERVE_ENSEMBLE_RUN_H

#include "serve/inference.h"

struct tt_ensemble;
struct tt_ensemble_run;
struct tt_served_model;
struct tt_signature;

struct tt_ensemble_place {
    struct tt_ensemble_run *run;
    struct tt_inference *inference; /* of a begun step */
    struct tt_inference_step went;  /* of an ended step */
};

struct tt_ensemble_run {
    struct tt_inference *whole;
    const struct tt_ensemble *ensemble;
    /* Sets of steps. Each begins, is submitted, ends, is released and returns, in this order; one
     * that is not submitted may be released. Steps that never begin return at the end. The engine
     * still reads inputs of the lost ones, until they return. */
    uint64_t begun, submitted, ended, lost, released, returned;
    bool failed;
    bool is_releasing;                 /* release_unread() is on the stack */
    int64_t queue_ns, compute_ns;      /* summed over the steps that succeeded */
    struct tt_ensemble_place places[]; /* [step_count] */
};

/* Makes a new model serve as this ensemble: it is ready, and belongs to no domain. */
void tt_ensemble_attach(struct tt_served_model *model, const struct tt_signature *signature,
                        struct tt_ensemble *take_ensemble);
/* Asserts that the sets of steps agree with each other and with the steps' inferences. */
void tt_ensemble_run_check(const struct tt_ensemble_run *self);

#endif
