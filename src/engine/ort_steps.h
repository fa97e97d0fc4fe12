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
#ifndef TT_ENGINE_ORT_STEPS_H
#define TT_ENGINE_ORT_STEPS_H

#include "engine/gather.h"
#include "engine/ort_model.h"
#include "engine/worker.h"

/* An executor's memory, kept from task to task. All zero in the beginning. */
struct tt_ort_desk {
    OrtRunOptions *run_options;
    int32_t capacity;
    struct tt_gather_buffer *buffers; /* per tensor */
    OrtValue **values;                /* per tensor, of the run at hand */
    const struct tt_tensor_view **views;
    int32_t view_capacity;
    const OrtValue **inputs; /* of the call at hand */
    OrtValue **outputs;
};

void tt_ort_desk_fini(struct tt_ort_desk *self);

struct tt_ort_run {
    struct tt_worker *worker;
    struct tt_ort_desk *desk;
    struct tt_engine_task *task;
    struct tt_engine_member *const *members; /* checked */
    int32_t count;
    bool may_yield;
    int32_t
        length; /* set: inputs are padded to this: the task's, or in the middle what they were */
    /* Set: */
    int32_t last_step_done; /* the last step that all members have done; first_step - 1: none */
    bool computed;          /* all sessions ran; an error is of what came out of them */
};

/* Runs to the task's last step, or to where it was asked to stop. Errors: INVALID, NO_MEMORY,
 * INTERNAL, all of the run as a whole: the members are as before. Without error: they have their
 * result, or their states. Where the task is to be aborted it returns early, with or without error.
 */
TT_MUST_CHECK enum tt_err tt_ort_run(struct tt_ort_run *run, struct tt_message *why);

#endif
