/* Which pool of backends has each model, and the plan that changes it (S8).
 *
 * Life of a plan: RECORDING, the coordination service records it (where there is one) -> LOADING,
 * its target pools load what they gain -> NOTIFYING, all have loaded, and
 * the spares get the new placement -> the switch: new requests, and those that wait, go to the new
 * pools -> DRAINING, what the old pools were granted runs to its end -> UNLOADING, they unload what
 * they lose -> NONE. Until the switch both the old and the new pool have what moves, so every
 * later primary finds each model where it believes it to be.
 *
 * A plan is carried out as a whole or dropped as a whole. It is dropped if a backend or scheduler
 * is lost before the switch, a model cannot be loaded, loading takes too long, or a command stops
 * it. The old placement is in force then, and the target pools unload what they have loaded. After
 * the switch a plan is undone by another plan.
 *
 * This module has the books; cluster/model_set.h sends and awaits. At first the models are dealt
 * to the pools in the order of their numbers, by the pools' devices. Versions of one model lie in
 * one pool. Pure, one thread. Implemented in placement.c. */
#ifndef TT_CLUSTER_PLACEMENT_H
#define TT_CLUSTER_PLACEMENT_H

#include "base/text.h"
#include "cluster/cluster.h"

enum tt_placement_stage {
    TT_PLACEMENT_NONE,
    TT_PLACEMENT_RECORDING,
    TT_PLACEMENT_LOADING,
    TT_PLACEMENT_NOTIFYING,
    TT_PLACEMENT_DRAINING,
    TT_PLACEMENT_UNLOADING,
};

/* How a plan ended. */
enum tt_placement_end {
    TT_PLACEMENT_DONE,    /* it is in force */
    TT_PLACEMENT_STOPPED, /* by a command */
    TT_PLACEMENT_LOST,    /* `node` was lost, or takes no work */
    TT_PLACEMENT_FAILED,  /* `node` cannot load `model` */
    TT_PLACEMENT_LATE,    /* `node` did not load in time; no node: it was not recorded in time */
    TT_PLACEMENT_RIVAL,   /* a later primary has recorded a plan */
    TT_PLACEMENT_DEPOSED, /* the scheduler is no primary any more */
    TT_PLACEMENT_ENDS,
};

struct tt_placement_outcome {
    enum tt_placement_end end;
    uint16_t node, model;
    int32_t moves;
};

struct tt_placement {
    const struct tt_cluster_settings *settings;
    int32_t pool_count;
    enum tt_placement_stage stage;
    uint64_t version; /* of the placement in force: plans that were carried out, ever */
    uint16_t *homes;  /* [capacity], as the others: the pool that has the model */
    /* During a plan another pool that has it: until the switch the one that it moves
     * to, then the one that it comes from; else its home. */
    uint16_t *others;
    uint16_t *former; /* the homes before the latest switch */
    int32_t moves;    /* models that the plan moves */
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_placement_init(struct tt_placement *self,
                                            const struct tt_cluster_settings *settings);
void tt_placement_fini(struct tt_placement *self);

/* A model has come, the last one of the settings: it lies in `pool`, or where the fewest are for
 * TT_CLUSTER_NO_POOL; a version lies with the others of its model. */
void tt_placement_add(struct tt_placement *self, uint16_t pool);

/* RECORDING the way to `homes` (model_count pools; a version's entry is ignored unless it is the
 * first of its model). Errors: INVALID: a pool that is not there, or nothing moves; BUSY. */
TT_MUST_CHECK enum tt_err tt_placement_begin(struct tt_placement *self, const uint16_t *homes,
                                             struct tt_error *why);
/* The stage after RECORDING, LOADING, NOTIFYING (the switch), DRAINING, UNLOADING. */
void tt_placement_advance(struct tt_placement *self);
/* Drops a plan before its switch; after it the plan is over as it stands. */
void tt_placement_end(struct tt_placement *self);
/* A spare takes over what the primary says. False: a pool is not there. */
bool tt_placement_follow(struct tt_placement *self, const uint16_t *homes, uint64_t version);

/* A plan is under way that can still be dropped. */
static inline bool tt_placement_is_open(const struct tt_placement *self) {
    return self->stage >= TT_PLACEMENT_RECORDING && self->stage <= TT_PLACEMENT_NOTIFYING;
}
/* The pool is to have the model loaded now. */
static inline bool tt_placement_holds(const struct tt_placement *self, uint16_t pool,
                                      int32_t model) {
    return self->homes[model] == pool ||
           (self->others[model] == pool && self->stage != TT_PLACEMENT_RECORDING);
}
/* The pool of the model that spares get. */
static inline uint16_t tt_placement_announced(const struct tt_placement *self, int32_t model) {
    return self->stage == TT_PLACEMENT_NOTIFYING ? self->others[model] : self->homes[model];
}
/* The present stage waits for this pool's backends. */
bool tt_placement_concerns(const struct tt_placement *self, uint16_t pool);

/* "LOADING" and the like. Static storage. */
const char *tt_placement_stage_name(enum tt_placement_stage stage);
/* The pool of this name; -1: there is none. */
int32_t tt_placement_find_pool(const struct tt_cluster_settings *settings, const char *name);
/* Names for people; a number where the settings have none. */
void tt_placement_put_node(const struct tt_cluster_settings *settings, uint16_t node,
                           struct tt_text *out);
/* Appends a sentence without its full stop, as "the plan of 2 moves was dropped: node b1 is lost".
 */
void tt_placement_put_outcome(const struct tt_cluster_settings *settings,
                              const struct tt_placement_outcome *outcome, struct tt_text *out);
void tt_placement_check(const struct tt_placement *self);

#endif
