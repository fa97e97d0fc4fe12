/* Runs the steps of a task for members that go together: one call of a session per step, what a
 * step makes being what the next ones read.
 *
 * Inputs come from the members where no earlier step read them, what earlier tasks made comes from
 * the members' slots; both are bound as they lie where the members are adjacent, else gathered. A
 * tensor that will outlive the task is written by its step where the members' slots lie, if they
 * lie together and its shape is known beforehand, else it is copied there when the task ends. After
 * the model's last step the members share one result.
 *
 * Members that were padded to one length at their first step stay so to the end; in the middle,
 * those of another length are no batch mates. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_STEPS_H
#define TT_ENGINE_ONNXRUNTIME_ORT_STEPS_H

#include "engine/gather.h"
#include "engine/onnxruntime/ort_model.h"
#include "engine/thread_executors.h"

/* What is kept of the courses of a run, see ort_exit_routes.h; part of an executor's desk. */
struct tt_ort_exit_routes {
    int32_t member_capacity, value_capacity;
    int32_t *of_member; /* the exit, by its index in the model; -1: on with the next step */
    OrtValue **values;  /* outputs of exits' graphs */
    int32_t diverging;  /* members with an exit */
    int32_t leaving;    /* of those, out of the model */
};

/* An executor's memory, kept from task to task. All zero in the beginning. */
struct tt_ort_scratch {
    OrtRunOptions *run_options;
    int32_t capacity;
    struct tt_gather_buffer *buffers; /* per tensor */
    OrtValue **values;                /* per tensor, of the run at hand */
    const struct tt_tensor_view **views;
    int32_t view_capacity;
    const OrtValue **inputs; /* of the call at hand */
    OrtValue **outputs;
    struct tt_ort_exit_routes routes;
};

void tt_ort_scratch_fini(struct tt_ort_scratch *self);

struct tt_ort_run {
    struct tt_executor_thread *thread;
    struct tt_ort_scratch *scratch;
    struct tt_engine_task *task;
    struct tt_engine_member *const *members; /* checked, all at first_step */
    int32_t count;
    int32_t first_step, last_step; /* of the task's */
    bool may_yield;
    /* Set: */
    int32_t rows;           /* of all members */
    int32_t length;         /* inputs are padded to this: the task's, or what they were before */
    int32_t last_step_done; /* the last step that all members have done; first_step - 1: none */
    bool computed;          /* all sessions ran; an error is of what came out of them */
    bool yielded;           /* it ended since it was asked to */
    bool parts;             /* it ended since members go elsewhere */
};

/* Runs to the last step, to where it was asked to stop, or to where members part
 * (ort_exit_routes.h). Errors: INVALID, NO_MEMORY, INTERNAL, all of the run as a whole: the members
 * are as before. Without error: they have their result, or their states, and `next_step`:
 * step_count where they left early, step_count + 1 at the end. Who has a result keeps its state,
 * for the task may still be aborted. Where the task is to be aborted it returns early, with or
 * without error. */
TT_MUST_CHECK enum tt_err tt_ort_run(struct tt_ort_run *run, struct tt_error *why);
/* Has desk->values[tensor] be that tensor of all members: made in this run, or gathered. For what
 * belongs to a run (ort_exit_routes.h). Errors: INVALID (shapes differ), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_run_bind(struct tt_ort_run *run, int32_t tensor,
                                          struct tt_error *why);

#endif
