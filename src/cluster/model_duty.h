/* Which models a node serves: the side of frontends and backends of loading and unloading.
 *
 * The primary sends the set that the node is to serve (SERVE; cluster/model_set.h). The node loads
 * and unloads, one model at a time, until it serves that set or cannot load a model of it. Then it
 * answers (SERVED). A set that comes meanwhile replaces the former one, which gets no answer.
 *
 * A process has all models that it knows loaded when it starts; one that comes later is not.
 * The first set that it gets loads none of them again. A model that could not be loaded is tried
 * again when its state in the set has changed.
 *
 * Pure, one thread: that of the node's role. Implemented in model_duty.c. */
#ifndef TT_CLUSTER_MODEL_DUTY_H
#define TT_CLUSTER_MODEL_DUTY_H

#include "cluster/model_set.h"

struct tt_model_duty {
    int32_t model_count, capacity;
    struct tt_model_state *wanted, *actual; /* [capacity], as `failures` */
    uint16_t *failures;                     /* of the state wanted now; a negated enum tt_err */
    uint64_t version, epoch;                /* of `wanted`; 0: none came yet */
    uint16_t primary;                       /* that sent it */
    int32_t busy;                           /* model that is being loaded or unloaded; -1: none */
    struct tt_model_state busy_with;
    bool must_answer;
    struct tt_outbox *outbox;
    void *context;
    /* Loads the model (again), or unloads it; tt_model_duty_acted() follows, never from in here.
     * NULL: this is done at once. */
    void (*act)(void *context, int32_t model, bool is_load);
};

/* `capacity`: models at most, ever. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_duty_init(struct tt_model_duty *self, int32_t model_count,
                                             int32_t capacity, struct tt_outbox *outbox);
void tt_model_duty_fini(struct tt_model_duty *self);
/* A model has come, which is not loaded. */
void tt_model_duty_add(struct tt_model_duty *self);
/* A frame SERVE of the primary that the node obeys. False: it makes no sense. */
bool tt_model_duty_receive(struct tt_model_duty *self, uint16_t from, const struct tt_frame *frame);
/* The node has the model no more, although it served it. */
void tt_model_duty_lost(struct tt_model_duty *self, int32_t model);
/* `act` has ended; `failure`: a negated enum tt_err, 0: done. */
void tt_model_duty_acted(struct tt_model_duty *self, uint16_t failure);
/* New requests to the model may come. */
static inline bool tt_model_duty_serves(const struct tt_model_duty *self, int32_t model) {
    bool is_leaving = self->busy == model && !self->busy_with.serves;
    return self->actual[model].serves && !is_leaving;
}
/* It serves the set that came last, as far as it can. */
bool tt_model_duty_is_done(const struct tt_model_duty *self);
void tt_model_duty_check(const struct tt_model_duty *self);

#endif
