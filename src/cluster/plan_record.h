/* The record of the latest plan in the coordination service (cluster/coordination.h).
 *
 * A primary writes its plan before it begins, and again when it is in force. Writing is a
 * compare-and-swap: of two schedulers that believe to be primary only the one of the higher epoch
 * gets its plan recorded, since it replaces a record of a lower epoch and gives way to one of a
 * higher. What is not answered is tried again, until another text is to be written.
 *
 * Its requests have numbers with the highest bit, which those of cluster/membership.h do not have.
 * Pure, one thread. Implemented in plan_record.c. */
#ifndef TT_CLUSTER_PLAN_RECORD_H
#define TT_CLUSTER_PLAN_RECORD_H

#include "base/text.h"
#include "cluster/membership.h"

#define TT_PLAN_RECORD_NUMBERS (UINT64_C(1) << 63)

struct tt_plan_record {
    int64_t timeout_ns; /* of an answer */
    struct tt_membership_call call;
    uint64_t numbers;
    bool is_wanted; /* `text` is not recorded yet */
    bool is_stale;  /* the request that is under way has an earlier text */
    uint64_t epoch; /* of `text` */
    int64_t revision;
    struct tt_text text;
    int64_t failures; /* requests that failed or were not answered */
    void *context;
    void (*send)(void *context, const struct tt_coordination_request *request);
    /* The text is recorded, or a plan of a later epoch stands there. */
    void (*ended)(void *context, int64_t now, bool is_recorded);
};

void tt_plan_record_init(struct tt_plan_record *self, int64_t timeout_ns);
void tt_plan_record_fini(struct tt_plan_record *self);
/* Replaces what is written now. `text` is copied; its first line is the epoch in decimal. */
void tt_plan_record_write(struct tt_plan_record *self, int64_t now, uint64_t epoch,
                          const char *text);
void tt_plan_record_answered(struct tt_plan_record *self, int64_t now,
                             const struct tt_coordination_answer *answer);
void tt_plan_record_tick(struct tt_plan_record *self, int64_t now);
int64_t tt_plan_record_next_at(const struct tt_plan_record *self);
void tt_plan_record_check(const struct tt_plan_record *self);

#endif
