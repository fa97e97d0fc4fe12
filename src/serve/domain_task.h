/* struct tt_domain_task: a domain's side of one task of its engine. Types only: there is no .c
 * file. */
#ifndef TT_SERVE_DOMAIN_TASK_H
#define TT_SERVE_DOMAIN_TASK_H

#include "base/list.h"
#include "base/threads/push_list.h"
#include "core/task.h"
#include "engine/engine.h"

struct tt_served_model;

struct tt_domain_task {
    struct tt_engine_task engine_task;
    struct tt_task *task;
    struct tt_tensor_view blank[TT_MAX_TENSORS]; /* of the member that fills the batch up */
    struct tt_list_node decided;                 /* until it is handed over */
    struct tt_push_node done;                    /* from its executor to the scheduler */
    struct tt_list_node collecting;              /* from there until it is taken in */
    struct tt_served_model
        *lost_model; /* of a run that was given up, a reference; NULL: it was not */
};

static inline struct tt_domain_task *tt_domain_task_of(struct tt_engine_task *engine_task) {
    return TT_CONTAINER_OF(engine_task, struct tt_domain_task, engine_task);
}

#endif
