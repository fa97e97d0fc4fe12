/* One pool of backends and the provider of its machines: when to ask for how many nodes, which node
 * is drained first, and what to do about a provider that fails.
 *
 * The nodes of a pool are numbered from 0. The provider is asked for a count: it runs the first
 * `count` of them, as a StatefulSet of Kubernetes does. So the last one is stopped first.
 *
 * Life of a change, one at a time:
 *
 *     up:    STEADY -> CALLING -> DELIVERING, until all nodes serve -> STEADY
 *     down:  STEADY -> DRAINING, the last node ends what it has -> CALLING -> DELIVERING, until it
 *            is gone -> STEADY
 *
 * A call that fails, or nodes that do not come within `deliver_ns`, lead to BACKING_OFF for
 * `retry_ns`, then twice as long each time up to `retry_most_ns`. Until a change succeeds, the old
 * count is in force; the advice stays, so the call is repeated.
 *
 * The target is that of an autoscaler (scale/autoscaler.h): up at once, down after `hold_ns`; or
 * a pinned one; within `least` and `most` nodes. A node that will be preempted is drained at once,
 * and replaced by one more node until it has served again for `hold_ns`. A node is stopped only if
 * it is drained or does not run, and only if the nodes before it serve what is needed; so a
 * scheduler that is cut off stops none. A drain that takes longer than `drain_ns` is given up, and
 * the node is stopped.
 *
 * The caller reports what it sees and carries out the actions; only a primary scheduler does. A
 * scheduler that has become primary observes first. The count in force is then that which the
 * provider reports, or the nodes that run, if those are more. Calls state a count, so a wrong view
 * would stop nodes that only start.
 *
 * A state machine without clock or I/O. One thread. Implemented in pool_scaler.c. */
#ifndef TT_SCALE_POOL_SCALER_H
#define TT_SCALE_POOL_SCALER_H

#include "base/err.h"
#include "scale/autoscaler.h"
#include "scale/start_up_time.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_pool_scaler_settings {
    const int32_t *devices; /* [node_count], each >= 1; copied */
    int32_t node_count;
    int32_t least, most; /* nodes; 1 <= least <= most <= node_count */
    int64_t hold_ns, deliver_ns, drain_ns, retry_ns, retry_most_ns;
    int64_t start_up_ns; /* of a node; 0: it is learnt */
};

enum tt_pool_stage {
    TT_POOL_OFF, /* the scheduler is no primary */
    TT_POOL_OBSERVING,
    TT_POOL_STEADY,
    TT_POOL_DRAINING,
    TT_POOL_CALLING,
    TT_POOL_DELIVERING,
    TT_POOL_BACKING_OFF,
};

enum tt_pool_mode {
    TT_POOL_AUTO,
    TT_POOL_PINNED,
    TT_POOL_STOPPED, /* nothing new begins; a change that is under way ends */
};

enum tt_pool_node_state {
    TT_POOL_NODE_ABSENT,  /* does not run, or is not reached */
    TT_POOL_NODE_BUSY,    /* runs and takes no work: it starts, or is suspected */
    TT_POOL_NODE_SERVING, /* takes work */
    TT_POOL_NODE_LEAVING, /* ends what it has */
    TT_POOL_NODE_DRAINED, /* has ended it */
};

/* What happened, for the log; the counters below have the numbers. */
enum tt_pool_event {
    TT_POOL_QUIET,
    TT_POOL_DELIVERED,    /* the count in force runs */
    TT_POOL_LATE,         /* the provider did not deliver in time */
    TT_POOL_DRAIN_LATE,   /* the drain of the last node is given up, and it is stopped */
    TT_POOL_DRAIN_IGNORED /* the last node takes work although it was to drain */
};

enum tt_pool_verb {
    TT_POOL_NOTHING,
    TT_POOL_DRAIN, /* drain `node`; tt_pool_scaler_drain_failed if that cannot be done */
    TT_POOL_CALL,  /* ask the provider for `count` nodes; tt_pool_scaler_answered follows */
};

struct tt_pool_action {
    enum tt_pool_event event;
    enum tt_pool_verb verb;
    int32_t node, count;
    uint64_t serial; /* of a call */
};

struct tt_pool_node {
    enum tt_pool_node_state state;
    bool is_ours;       /* this scaler drained it: it serves again only after a new start */
    bool is_noticed;    /* it will be preempted */
    bool wants_drain;   /* for that */
    int64_t back_at;    /* serves since then, and since the notice; TT_NEVER: it does not */
    int64_t ordered_at; /* and has not served since; TT_NEVER: it was not ordered */
};

struct tt_pool_scaler {
    struct tt_pool_scaler_settings settings;
    int32_t *devices;           /* [node_count] */
    struct tt_pool_node *nodes; /* [node_count] */
    enum tt_pool_stage stage;
    enum tt_pool_mode mode;
    struct tt_autoscaler autoscaler; /* of devices; not in stages OFF and OBSERVING */
    struct tt_devices_wanted wanted; /* the latest advice */
    struct tt_start_up_time start_up;
    bool is_advised;
    bool must_ask;      /* the provider promised `asked` nodes, and they are not there */
    int32_t pinned;     /* nodes, if PINNED */
    int32_t asked;      /* the count in force: that the provider was asked for last, or runs */
    int32_t found;      /* OBSERVING: by the provider */
    int32_t base;       /* nodes that are needed as long as there is no advice */
    int32_t goal;       /* of the change under way; DRAINING: also the number of the node */
    int32_t before;     /* `asked` before the latest call */
    int64_t until_at;   /* the end of the stage; TT_NEVER: it waits for an answer or for nothing */
    int64_t short_at;   /* nodes in force are absent since then; TT_NEVER: none is */
    int64_t backoff_ns; /* of the next failure */
    uint64_t serial;    /* of the latest call */
    /* Calls, those that failed or drains that did, late deliveries, deliveries, changes
     * elsewhere, notices of preemption. */
    int64_t calls, failures, late, delivered, changed, preempted;
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_pool_scaler_init(struct tt_pool_scaler *self,
                                              const struct tt_pool_scaler_settings *settings);
void tt_pool_scaler_fini(struct tt_pool_scaler *self); /* also on zeroed memory */

/* ---- what the caller sees; then it calls _step ---- */

/* The scheduler became primary, and observes until `observed_at` (TT_NEVER: until _found). */
void tt_pool_scaler_lead(struct tt_pool_scaler *self, int64_t observed_at);
/* It is a spare: answers to its calls are of no use any more. */
void tt_pool_scaler_yield(struct tt_pool_scaler *self);
/* While it observes: so many nodes the provider runs or has promised. */
void tt_pool_scaler_found(struct tt_pool_scaler *self, int64_t now, int32_t count);
void tt_pool_scaler_observe(struct tt_pool_scaler *self, int64_t now, int32_t node,
                            enum tt_pool_node_state state);
/* `bad`: the share of bad requests lately, which counts where the devices in force all served. */
void tt_pool_scaler_advise(struct tt_pool_scaler *self, int64_t now,
                           const struct tt_devices_wanted *wanted, double bad);
/* The devices in force serve, and no change is under way. */
bool tt_pool_scaler_is_settled(const struct tt_pool_scaler *self);
/* The end of a call. OK: the provider will run the count. BUSY: it runs `found` nodes instead (-1:
 * not known), since that was changed elsewhere; the caller's view was old. Other errors: it failed.
 */
void tt_pool_scaler_answered(struct tt_pool_scaler *self, int64_t now, uint64_t serial,
                             enum tt_err err, int32_t found);
void tt_pool_scaler_drain_failed(struct tt_pool_scaler *self, int64_t now, int32_t node);
/* The node will be preempted. False: it does not run. */
bool tt_pool_scaler_preempt(struct tt_pool_scaler *self, int32_t node);

/* ---- commands ---- */

void tt_pool_scaler_stop(struct tt_pool_scaler *self);
/* Back to the advice. */
void tt_pool_scaler_resume(struct tt_pool_scaler *self);
/* Errors: INVALID: fewer nodes than `least`, or more than `most`, would be needed. */
TT_MUST_CHECK enum tt_err tt_pool_scaler_pin(struct tt_pool_scaler *self, int32_t devices,
                                             struct tt_error *why);

/* ---- what to do ---- */

/* The next action; to be called until it has neither an event nor a verb. */
struct tt_pool_action tt_pool_scaler_step(struct tt_pool_scaler *self, int64_t now);
/* When to step without a report; TT_NEVER: not. */
int64_t tt_pool_scaler_next_at(const struct tt_pool_scaler *self);

/* Devices of the first `count` nodes. */
int32_t tt_pool_scaler_devices(const struct tt_pool_scaler *self, int32_t count);
/* The fewest nodes that have `devices`; all, if those have fewer. */
int32_t tt_pool_scaler_nodes(const struct tt_pool_scaler *self, int32_t devices);
/* Nodes that are to run: the target and the replacements of noticed nodes. */
int32_t tt_pool_scaler_target(const struct tt_pool_scaler *self);
/* Devices of nodes that serve. */
int32_t tt_pool_scaler_serving(const struct tt_pool_scaler *self);
/* "STEADY" and the like, "AUTO" and the like. Static storage. */
const char *tt_pool_stage_name(enum tt_pool_stage stage);
const char *tt_pool_mode_name(enum tt_pool_mode mode);
void tt_pool_scaler_check(const struct tt_pool_scaler *self);

#endif
