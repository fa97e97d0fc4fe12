/* E7: answers that leave before their batch has ended, where the engine returns outputs one request
 * after the other (`answers_each` of engine/engine.h).
 *
 * Life of an answer: the engine's thread puts the member into the ring of its executor and wakes
 * the scheduler; a turn takes it, gives the inference its result, and ends it
 * (core/early_answer.h). The task is collected later, without that inference. An answer is left to
 * its task if the task follows one that was not collected, if the request was cancelled, or if it
 * is the last of the task.
 *
 * Words that the engine reports before an answer (`emits` of engine/engine.h) take the same ring:
 * the engine's thread puts them where the client reads (serve/emissions.h), and a turn announces
 * them to the client's port. Implemented in domain_answers.c, as is what traces say of copies. */
#ifndef TT_SERVE_DOMAIN_ANSWERS_H
#define TT_SERVE_DOMAIN_ANSWERS_H

#include "base/threads/dirty_set.h"
#include "base/threads/ring.h"
#include "engine/engine.h"

struct tt_domain;
struct tt_served_model;
struct tt_task;

struct tt_domain_answers {
    /* Per executor: struct tt_engine_member *, with a bit for words. NULL: answers leave with their
     * batches. */
    struct tt_ring *rings;
    int32_t ring_count;
    struct tt_dirty_set reports; /* executors that put something into their rings */
    int32_t *reported;           /* [executors] for tt_domain_answers_take_all() */
};

/* `capacity`: members of all tasks of an executor, twice: with an answer, and with words. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_domain_answers_init(struct tt_domain_answers *self, int32_t executors,
                                                 int32_t capacity);
void tt_domain_answers_fini(struct tt_domain_answers *self);
/* The `answered` of the domain's tasks. */
void tt_domain_answered(struct tt_engine_task *task, struct tt_engine_member *member);
/* The `emitted` of the domain's tasks. */
bool tt_domain_emitted(struct tt_engine_task *task, struct tt_engine_member *member,
                       const void *rows, int32_t count);
/* Takes what has come from the executor: before a task of it is taken in, after it came back. */
void tt_domain_answers_take(struct tt_domain *domain, int64_t now, int32_t executor);
/* Takes what has come from all. */
void tt_domain_answers_take_all(struct tt_domain *domain, int64_t now);

/* Traces the copies of a task that is collected: those of inputs that were copied when they
 * arrived, of the requests that were not answered before, and those of the batch. */
void tt_domain_answers_trace(const struct tt_domain *domain, const struct tt_served_model *model,
                             const struct tt_task *task, const struct tt_engine_task *engine_task);

#endif
