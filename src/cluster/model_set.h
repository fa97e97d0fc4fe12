/* Which models a cluster serves: the primary's side of loading and unloading.
 *
 * A client's command comes to a frontend, which sends it as a WISH to the primary. The primary
 * carries out one wish at a time, in two stages. A load: all backends load the model, and then all
 * frontends serve it. An unload: all frontends stop to serve it and end their requests, and then
 * all backends unload it. So what a frontend serves, every backend has. The wish is answered
 * (WISHED) when the last node has answered. If a node fails to load, all return to what they served
 * before.
 *
 * A model of which no backend takes batches is absent. That is no unload: frontends have it ready
 * for the next backend. A new primary begins with what the former one said of it.
 *
 * A node that joins gets the set of its role at once, and is waited for. A node that leaves is not:
 * it gets the set when it returns. Spares know what the frontends serve. A new primary begins with
 * that: it completes an unload that was under way, and drops a load.
 *
 * Backends load only the models that the placement gives to their pool (cluster/placement.h). A
 * plan that changes the placement is carried out like a wish; wishes wait for it, and it is refused
 * while a wish is carried out.
 *
 * A model that comes while the nodes run serves at once if the node that brought it serves it, else
 * once it is loaded.
 *
 * Models are numbers. Versions of one model share the number of the first. Pure, one thread: that
 * of the scheduler's role, whose outbox it fills. Implemented in model_set.c. */
#ifndef TT_CLUSTER_MODEL_SET_H
#define TT_CLUSTER_MODEL_SET_H

#include "cluster/cluster.h"
#include "cluster/outbox.h"
#include "cluster/placement.h"

enum { TT_MODEL_SET_WISHES = 64 };

struct tt_model_wish {
    uint64_t number; /* the frontend's */
    uint16_t frontend, model;
    bool is_load;
};

enum tt_model_stage { TT_MODEL_STAGE_NONE, TT_MODEL_STAGE_BACKENDS, TT_MODEL_STAGE_FRONTENDS };

struct tt_model_state {
    bool serves;
    uint16_t generation; /* another one: load it again */
};

struct tt_model_set {
    const struct tt_cluster_settings *settings;
    struct tt_outbox *outbox;
    uint16_t number;                     /* of the scheduler */
    uint64_t epoch;                      /* 0: not primary */
    uint64_t version;                    /* of what was sent last */
    struct tt_model_state *front, *back; /* [capacity]: at frontends, at backends */
    bool *absent;                        /* [capacity]: no backend takes batches of it */
    bool *has_joined;                    /* [node_count] */
    uint64_t *awaited; /* [node_count]: the version that it is to answer; 0: none */
    struct tt_model_wish wishes[TT_MODEL_SET_WISHES]; /* a ring; the first is carried out */
    int32_t first_wish, wish_count;
    enum tt_model_stage stage;
    struct tt_model_state before; /* of the wish's model at frontends */
    int32_t awaited_count;
    uint16_t failure; /* of the wish: a negated enum tt_err; 0: none */
    struct tt_placement placement;
    uint16_t *pools; /* [capacity]: of the frame that is read */
    void *context;
    /* A wish was carried out, or failed. May be NULL. */
    void (*ended)(void *context, const struct tt_model_wish *wish, uint16_t failure);
    /* A plan was carried out or dropped. May be NULL. */
    void (*placed)(void *context, const struct tt_placement_outcome *outcome);
};

/* All models that are there now serve. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_set_init(struct tt_model_set *self,
                                            const struct tt_cluster_settings *settings,
                                            uint16_t number, struct tt_outbox *outbox);
void tt_model_set_fini(struct tt_model_set *self);
/* A model has come, the last one of the settings; `pool` as in tt_placement_add(). A model that
 * serves is sent to the nodes by _announce. */
void tt_model_set_add(struct tt_model_set *self, bool serves, uint16_t pool);
/* The primary: no backend takes batches of the model, or one does again. Frontends keep such a
 * model, and refuse requests to it. True: the other nodes should know, by _announce_absent. */
bool tt_model_set_absent(struct tt_model_set *self, int32_t model, bool is_absent);
void tt_model_set_announce_absent(struct tt_model_set *self);
/* The primary: all nodes get the set anew. */
void tt_model_set_announce(struct tt_model_set *self);
/* The scheduler becomes primary / a spare. Wishes that wait are forgotten: their frontends know of
 * the change. */
void tt_model_set_lead(struct tt_model_set *self, uint64_t epoch);
void tt_model_set_yield(struct tt_model_set *self);
/* The primary: a node has answered its claim / has no link any more. */
void tt_model_set_join(struct tt_model_set *self, uint16_t peer);
void tt_model_set_part(struct tt_model_set *self, uint16_t peer);
/* The primary: a record of WISH, a frame SERVED. A spare: a frame SERVE. False: it makes no sense.
 */
bool tt_model_set_wish(struct tt_model_set *self, uint16_t from,
                       const struct tt_frame_record *record);
bool tt_model_set_served(struct tt_model_set *self, uint16_t from, const struct tt_frame *frame);
/* Requests to the model may be queued: a frontend serves it, or ends what it has of it. */
bool tt_model_set_admits(const struct tt_model_set *self, uint16_t model);
bool tt_model_set_follow(struct tt_model_set *self, const struct tt_frame *frame);
/* The primary: begins the plan to place the models so (tt_placement_begin). _recorded follows. Also
 * UNAVAILABLE: no backend of a target pool is there; BUSY: a load or an unload is carried out. */
TT_MUST_CHECK enum tt_err tt_model_set_place(struct tt_model_set *self, const uint16_t *homes,
                                             struct tt_error *why);
/* The plan is recorded, or there is nothing that records it: its target pools load. */
void tt_model_set_recorded(struct tt_model_set *self);
/* Drops a plan that can still be dropped. */
void tt_model_set_drop_plan(struct tt_model_set *self, enum tt_placement_end end, uint16_t node);
/* What moved has ended at the old pools. */
void tt_model_set_drained(struct tt_model_set *self);
/* A node that the plan waits for; TT_CLUSTER_NO_NODE: none. */
uint16_t tt_model_set_awaited(const struct tt_model_set *self);
void tt_model_set_check(const struct tt_model_set *self);

#endif
