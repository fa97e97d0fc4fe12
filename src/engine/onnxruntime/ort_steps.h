/* Runs the steps of a task for members that are at the same step: one call of a session per step. A
 * step's outputs are inputs of later steps.
 *
 * Inputs come from the members if no earlier step has read them. Tensors of earlier tasks come from
 * the members' slots. Both are bound in place if the members are adjacent, else gathered. A tensor
 * that outlives the task is written directly to the members' slots, if these are adjacent and its
 * shape is known in advance. Otherwise it is copied there when the task ends. After the model's
 * last step the members share one result.
 *
 * Members keep the padded length of their first step until the end. Between steps, members of
 * another length cannot join their batch. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_STEPS_H
#define TT_ENGINE_ONNXRUNTIME_ORT_STEPS_H

#include "engine/gather.h"
#include "engine/onnxruntime/ort_model.h"
#include "engine/thread_executors.h"

/* Routes of the members of a run (ort_exit_routes.h); part of an executor's scratch. */
struct tt_ort_exit_routes {
    int64_t member_capacity, value_capacity;
    int32_t *of_member; /* [members]: index of the exit taken; -1: continues with the next step */
    OrtValue **values;  /* outputs of exits' graphs */
    int32_t diverging;  /* number of members that take an exit */
    int32_t leaving;    /* of those, number that leave the model */
};

/* An executor's scratch memory, reused from task to task. All zero at first. */
struct tt_ort_scratch {
    OrtRunOptions *run_options;
    int64_t buffer_capacity, value_capacity, input_capacity, output_capacity, view_capacity;
    struct tt_gather_buffer *buffers; /* per tensor */
    OrtValue **values;                /* per tensor, of the current run */
    const struct tt_tensor_view **views;
    const OrtValue **inputs; /* of the current call */
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
    int32_t first_step, last_step; /* within the task's */
    bool may_yield;
    /* Set: */
    int32_t rows;           /* of all members */
    int32_t length;         /* padded length of the inputs: the task's, or that of earlier steps */
    int32_t last_step_done; /* the last step that all members have done; first_step - 1: none */
    bool computed;          /* all sessions ran: an error concerns their outputs */
    bool yielded;           /* it ended early because of a yield */
    bool parts;             /* it ended early because members diverge */
};

static inline const struct tt_ort_model *tt_ort_run_model(const struct tt_ort_run *run) {
    return TT_CONTAINER_OF(run->task->model, struct tt_ort_model, model);
}

/* Runs to the last step, to a stop, or to where members diverge (ort_exit_routes.h). Errors, for
 * the run as a whole: INVALID, NO_MEMORY, INTERNAL; the members are then unchanged. Without error,
 * members have their result or state, and `next_step`: step_count if they left early, step_count +
 * 1 at the end. Members with a result keep their state too, because the task may still be aborted.
 * On an abort it returns early, with or without error. */
TT_MUST_CHECK enum tt_err tt_ort_run(struct tt_ort_run *run, struct tt_error *why);
/* The tensor of all members, bound in place if they are adjacent, else gathered. Errors: INVALID
 * (shapes differ), NO_MEMORY. Implemented in ort_bind.c, as is _bind. */
TT_MUST_CHECK enum tt_err tt_ort_run_gather(struct tt_ort_run *run, int32_t tensor,
                                            struct tt_tensor_view *out_view, struct tt_error *why);
/* Sets scratch->values[tensor] to the tensor for all members: made in this run, or gathered. For
 * use within a run (ort_exit_routes.h). Errors: INVALID (shapes differ), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_run_bind(struct tt_ort_run *run, int32_t tensor,
                                          struct tt_error *why);

#endif
