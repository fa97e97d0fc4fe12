/* The scheduler's role: a spare that watches the primary, or the primary that grants batches.
 *
 * The primary has for each pool of backends a mechanism with a policy, as in one process, whose
 * executors are the pool's devices. A RUN becomes a GRANT; a DONE finishes the task. A model's
 * requests go to the pool that has it; when a plan moves the model (cluster/model_set.h), those
 * that wait change the pool.
 *
 * States: SPARE -> (the primary closed its link, or is silent and most nodes agree) -> PRIMARY by a
 * claim at all nodes -> SPARE again when a node knows a higher epoch, or when no node is heard for
 * `silence_ns`. A device takes grants once its backend has answered the claim and its older plans
 * have ended. The record of the claim (etcd) is written at the same time and is not waited for; if
 * it shows a higher epoch, the scheduler steps down.
 *
 * A backend that does not accept a grant in time, or does not end it in time, is suspected: its
 * grants go back to the frontends, and it gets no others until it answers a new claim of the same
 * epoch and its old plans have ended. Each time in a row it then has twice as long to end one, so
 * that a backend slower than its profile comes to end some, from which run times are learnt.
 *
 * A backend that a frontend does not reach gets no grants for ten silences, and is then asked
 * again: grants know no frontends, so the pair cannot be kept apart otherwise. A frontend that does
 * not reach more than half of the backends is itself the reason, and no backend is avoided for it.
 *
 * Delays (S4). All instants of a device are those at which its report arrives: a batch was there
 * when DONE came, less the time that DONE says that it waited and ran. So the delay of a batch
 * holds all of its messages, there and back, and no two clocks are compared. It is taken off the
 * timers, and a device of depth 2 gets its next batch so much before its end (policy/deferred).
 *
 * The backends of a pool need not have the same models. A batch goes to one that has its model, and
 * waits until such a one is idle; those behind it on its device wait, too.
 *
 * A model is absent while backends of its pool take batches, but none of them has it. Backends
 * answer a claim within `silence_ns`, so that does not count before. A model is absent, too, when
 * no backend of its pool has taken batches for `vacancy_ns`: until then one may come that takes the
 * place of the last one. Requests that wait for an absent model are dropped, and frontends refuse
 * others. It is there again when a backend that has it takes batches.
 *
 * One thread. A policy may have threads of its own (struct tt_scheduler_policy): they see requests
 * only as metadata, and what they decide is carried out, or left out, on the role's thread. So none
 * of it outlives the epoch: a scheduler that steps down ends them with the policy.
 *
 * Implemented in scheduler_role.c (life, claims, links), scheduler_pools.c (the pools),
 * scheduler_grants.c (tickets and grants), scheduler_holders.c (which backend has which model) and
 * scheduler_plans.c (plans of the placement). */
#ifndef TT_CLUSTER_SCHEDULER_ROLE_H
#define TT_CLUSTER_SCHEDULER_ROLE_H

#include "cluster/allegiance.h"
#include "cluster/model_set.h"
#include "core/mechanism.h"
#include "policy/policy.h"

/* What decides in each pool. Borrowed for the role's life, with everything in it. */
struct tt_scheduler_policy {
    const char *name;
    const struct tt_option *options;
    int32_t option_count;
    /* Attaches the policy to the mechanism, which tt_policy_destroy undoes. When its threads have
     * decided something, the driver calls tt_scheduler_role_decided. It is called for each pool at
     * the beginning, and again, with `is_again`, when the scheduler has stepped down; then it fails
     * for a lack of memory only. NULL: tt_policy_create, without threads. */
    enum tt_err (*create)(void *context, struct tt_mechanism *mechanism,
                          const struct tt_policy_setup *setup,
                          const struct tt_mechanism_options *limits, bool is_again,
                          struct tt_error *why);
    /* tt_policy_destroy is over; the mechanism ends next. NULL: not wanted. */
    void (*destroyed)(void *context, struct tt_mechanism *mechanism);
    void *context;
};

/* A request of the mechanism, by the index of its handle. */
struct tt_ticket_origin {
    uint64_t id;
    uint16_t frontend, attempt;
};

/* The devices that batch the same models, with what waits for them. */
struct tt_scheduler_pool {
    struct tt_scheduler_role *role;
    uint16_t number;
    bool wants_decision;
    bool has_exchanged;  /* devices; the mechanism gets to know it outside of its decisions */
    bool is_vacant;      /* no backend takes its batches, */
    bool is_deserted;    /* and none has for `vacancy_ns` */
    int64_t deserted_at; /* when it will be deserted; TT_NEVER: it is, or is not vacant */
    struct tt_mechanism mechanism;
    int32_t *devices; /* [device_count]: by executor, the role's number of the device */
    int32_t device_count;
    struct tt_ticket_origin *origins; /* [role->origin_count], by handle */
    /* Rows that came, those of them that were dropped for want of time or room, and those that were
     * computed after their deadline, since this process started. */
    int64_t came, dropped, late;
};

/* The latest attempt of a request of one frontend, by the index in the request's id. */
struct tt_ticket_entry {
    uint64_t id;             /* 0: none */
    struct tt_handle handle; /* of the pool's mechanism */
    uint16_t attempt, pool;
};

/* A grant whose device has not reported its end. */
struct tt_grant {
    struct tt_task *task;
    uint64_t number;
    int64_t sent_at;
    int64_t accepted_by, ended_by; /* its backend is suspected after that */
    bool is_accepted;
    bool is_parked; /* not sent: no idle backend has its model (scheduler_holders.c) */
};

struct tt_granted_device {
    struct tt_grant *grants; /* [depth], a ring from `oldest`; those that are parked come last */
    int32_t oldest, count;
    int64_t idle_since_at;    /* the end of its latest grant */
    uint16_t backend, device; /* as its backend numbers it */
    struct tt_scheduler_pool *pool;
    int32_t executor; /* of the pool's mechanism */
    bool is_usable;   /* an executor of the mechanism */
};

enum tt_peer_state {
    TT_PEER_DOWN,    /* no link, or the network lost it */
    TT_PEER_DEAD,    /* its process has ended */
    TT_PEER_UNKNOWN, /* linked; has not answered the claim */
    TT_PEER_KNOWN,   /* has answered it */
    TT_PEER_SUSPECT, /* a backend that is late */
    TT_PEER_LEAVING, /* a backend that ends what it has, and takes nothing new */
    TT_PEER_AVOIDED, /* the same, since a frontend and it have lost each other */
};

struct tt_peer {
    enum tt_peer_state state;
    int64_t heard_at;
    int64_t probe_at; /* of a suspect: when it is asked again */
    int32_t late;     /* how often a backend was suspected since a grant of it has ended */
    bool has_opinion, finds_it_silent;
    /* A backend: the frontend whose input did not come last, and when; TT_CLUSTER_NO_NODE: none. */
    uint16_t lost_frontend;
    int64_t lost_at;
};

struct tt_scheduler_role {
    const struct tt_cluster_settings *settings;
    uint16_t number;
    const struct tt_scheduler_policy *policy;
    struct tt_allegiance primary; /* the highest epoch seen, and when its scheduler was heard */
    bool is_primary, is_closing;
    bool succeeds;          /* SPARE: at claim_at it claims without asking */
    int64_t claim_at;       /* SPARE: when to claim, if nothing is heard; TT_NEVER: not planned */
    int64_t asked_until_at; /* opinions are awaited until then; TT_NEVER: none are */
    int64_t next_beat_at;
    struct tt_peer *peers;           /* [node_count] */
    struct tt_scheduler_pool *pools; /* [pool_count] */
    int32_t pool_count;
    bool has_mechanisms, had_mechanisms;
    uint16_t *routes;     /* [capacity]: the pool that gets its requests */
    int64_t *tickets;     /* [capacity]: rows that came since this process started */
    bool *lacks;          /* [node_count][capacity]: backends that do not have the model */
    int32_t *lacking;     /* [capacity]: of those */
    int32_t *paces;       /* [node_count][capacity]: how long the model takes there; 0: not known */
    int32_t parked;       /* grants */
    bool holders_changed; /* since it was last found out which models are absent */
    int64_t answers_until_at;   /* the claim is young: backends answer it; TT_NEVER: it is not */
    struct tt_request **moving; /* [request_limit]: during a switch; NULL: there is one pool */
    uint64_t placement_version; /* that `routes` are of */
    int64_t place_by_at;        /* a plan is loaded by then, or dropped */
    struct tt_granted_device *devices; /* [device_count], all backends' in order of their numbers */
    struct tt_grant *grants;
    struct tt_heap due;    /* devices with grants, by when their backend is suspected */
    int32_t *first_device; /* [node_count + 1]: of each backend */
    int32_t device_count, max_batch;
    int32_t origin_count;             /* of each pool */
    struct tt_ticket_entry **entries; /* [node_count][request_limit]; NULL: no frontend */
    uint64_t grant_count;
    struct tt_model_set models; /* that clients load and unload */
    struct tt_outbox outbox;
    void *context;
    /* Writes the epoch to the coordination service; tt_scheduler_role_recorded follows, or not. */
    void (*record)(void *context, int64_t now, uint64_t epoch);
    /* Records the plan that has begun; tt_scheduler_role_plan_recorded follows, or not. NULL: there
     * is nothing that records plans. */
    void (*record_plan)(void *context, int64_t now);
    int64_t claims, granted, returned, suspected, avoided, rejected;
};

TT_MUST_CHECK enum tt_err tt_scheduler_role_init(struct tt_scheduler_role *self,
                                                 const struct tt_cluster_settings *settings,
                                                 uint16_t number, int64_t now,
                                                 const struct tt_scheduler_policy *policy,
                                                 struct tt_error *why);
void tt_scheduler_role_fini(struct tt_scheduler_role *self);
/* A model has come, the last one of the settings (tt_model_set_add). */
void tt_scheduler_role_add_model(struct tt_scheduler_role *self, int64_t now, bool serves,
                                 uint16_t pool);
/* The backend has, or has not, the model loaded. At first every backend has all models. */
void tt_scheduler_role_hold(struct tt_scheduler_role *self, uint16_t backend, int32_t model,
                            bool holds);
/* On this backend the model takes so many thousandths of what the settings say: its grants are not
 * overdue before. */
void tt_scheduler_role_pace(struct tt_scheduler_role *self, uint16_t backend, int32_t model,
                            int32_t permille);
/* S4: what is believed of the messages to the backend, and from how many of the last ones. False:
 * none of its devices takes grants. */
bool tt_scheduler_role_delay(const struct tt_scheduler_role *self, uint16_t backend,
                             struct tt_network_delay *out_delay, int32_t *out_count);
/* A spare calls `change`, which may change the profiles of the settings, while no policy reads
 * them, and forgets the paces, which were shares of them. False: it is primary, and nothing was
 * called. */
bool tt_scheduler_role_retime(struct tt_scheduler_role *self, int64_t now,
                              void (*change)(void *context), void *context);
void tt_scheduler_role_receive(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                               const struct tt_frame *frame);
void tt_scheduler_role_link(struct tt_scheduler_role *self, int64_t now, uint16_t peer,
                            enum tt_link link);
/* Threads of the policies have decided something: the next tick is due at once. */
void tt_scheduler_role_decided(struct tt_scheduler_role *self);
/* The coordination service's answer to `record`: the epoch that is recorded now. */
void tt_scheduler_role_recorded(struct tt_scheduler_role *self, int64_t now, uint64_t epoch);
void tt_scheduler_role_tick(struct tt_scheduler_role *self, int64_t now);
int64_t tt_scheduler_role_next_at(const struct tt_scheduler_role *self);
/* Hands over to the other schedulers, if it is the primary. */
void tt_scheduler_role_resign(struct tt_scheduler_role *self, int64_t now);
/* Claims at once, if it is a spare. False: it is primary. */
bool tt_scheduler_role_promote(struct tt_scheduler_role *self, int64_t now);
/* The primary carries out a plan: each model moves to the pool that `homes` has for it
 * (cluster/placement.h). Errors: INVALID: nothing moves, or a pool is not there; BUSY: a plan, a
 * load or an unload is under way; UNAVAILABLE: this scheduler is a spare, a target pool has no
 * device, or a spare cannot be told. */
TT_MUST_CHECK enum tt_err tt_scheduler_role_place(struct tt_scheduler_role *self, int64_t now,
                                                  const uint16_t *homes, struct tt_error *why);
/* The coordination service has recorded the plan / has one of a later primary. */
void tt_scheduler_role_plan_recorded(struct tt_scheduler_role *self, int64_t now, bool is_recorded);
/* A plan back to the placement before the latest one. Errors as above. */
TT_MUST_CHECK enum tt_err tt_scheduler_role_undo_plan(struct tt_scheduler_role *self, int64_t now,
                                                      struct tt_error *why);
/* Drops the plan before its switch. Errors: UNAVAILABLE: none is under way, or it is too late. */
TT_MUST_CHECK enum tt_err tt_scheduler_role_stop_plan(struct tt_scheduler_role *self,
                                                      struct tt_error *why);
/* Requests that wait or run. */
int32_t tt_scheduler_role_requests(const struct tt_scheduler_role *self);
/* O(everything). */
void tt_scheduler_role_check(const struct tt_scheduler_role *self);

/* The pace of the model on the backend, in thousandths; 0: not known. */
static inline int32_t *tt_scheduler_pace_at(const struct tt_scheduler_role *self, uint16_t backend,
                                            int32_t model) {
    return &self->paces[(size_t)backend * (size_t)tt_cluster_model_capacity(self->settings) +
                        (size_t)model];
}

/* ---- scheduler_plans.c; called by the others ---- */

/* The scheduler has become primary. */
void tt_scheduler_plans_lead(struct tt_scheduler_role *self);
/* After each event: does what the stage of the plan asks for. */
void tt_scheduler_plans_settle(struct tt_scheduler_role *self, int64_t now);
void tt_scheduler_plans_tick(struct tt_scheduler_role *self, int64_t now);
int64_t tt_scheduler_plans_next_at(const struct tt_scheduler_role *self);

/* ---- scheduler_holders.c; called by the others ---- */

/* The scheduler has become primary: no backend takes batches yet. */
void tt_scheduler_holders_lead(struct tt_scheduler_role *self, int64_t now);
/* After each event: models become absent, and requests that wait for them are dropped; or the
 * models are back. */
void tt_scheduler_holders_settle(struct tt_scheduler_role *self, int64_t now);
/* When a pool will be deserted. */
int64_t tt_scheduler_holders_next_at(const struct tt_scheduler_role *self);
/* The device that gets a batch of the model, which may take the place of the given one; it is to be
 * parked if no idle one has the model, or behind one that is. */
struct tt_granted_device *tt_scheduler_holders_choose(struct tt_scheduler_role *self,
                                                      struct tt_granted_device *device,
                                                      int32_t model, bool *out_is_parked);
bool tt_scheduler_holders_have(const struct tt_scheduler_role *self, uint16_t backend,
                               int32_t model);
/* Some backend of the pool takes batches, but none of those has the model. */
bool tt_scheduler_holders_lost(const struct tt_scheduler_role *self, uint16_t pool, int32_t model);
/* A device that can run the model now, in place of the given one; NULL: there is none. */
struct tt_granted_device *tt_scheduler_holders_find_idle(struct tt_scheduler_role *self,
                                                         const struct tt_scheduler_pool *pool,
                                                         int32_t model);
/* The devices change their places in the mechanism; what the first one has is parked, and the other
 * one has nothing. */
void tt_scheduler_holders_exchange(struct tt_scheduler_role *self, struct tt_granted_device *a,
                                   struct tt_granted_device *b);
/* The mechanism gets to know of which backend's messages each executor has the delay. */
void tt_scheduler_holders_seat(struct tt_scheduler_pool *pool, int64_t now);
void tt_scheduler_holders_check(const struct tt_scheduler_role *self);

/* ---- scheduler_parked.c; called by the others ---- */

/* What was parked goes where it can run, or back. Before the policies decide. */
void tt_scheduler_parked_move(struct tt_scheduler_role *self, int64_t now);

/* ---- scheduler_pools.c; called by the others ---- */

/* The pools and their devices. False: out of memory. */
TT_MUST_CHECK bool tt_scheduler_pools_init(struct tt_scheduler_role *self);
void tt_scheduler_pools_fini(struct tt_scheduler_role *self);
/* Mechanisms without requests and executors. */
TT_MUST_CHECK enum tt_err tt_scheduler_pools_open(struct tt_scheduler_role *self, int64_t now,
                                                  struct tt_error *why);
void tt_scheduler_pools_close(struct tt_scheduler_role *self);
/* Devices of the pool that take work. */
int32_t tt_scheduler_pool_usable(const struct tt_scheduler_pool *pool);
/* The last model of the settings has come. */
void tt_scheduler_pools_add_model(struct tt_scheduler_role *self, int64_t now);
/* When the first of them is to decide. */
int64_t tt_scheduler_pools_next_at(const struct tt_scheduler_role *self);
void tt_scheduler_pools_decide(struct tt_scheduler_role *self, int64_t now);
void tt_scheduler_pools_check(const struct tt_scheduler_role *self);

/* ---- scheduler_grants.c; called by the others ---- */

/* What a pool's mechanism asks for; the context is the pool. */
struct tt_carrier tt_scheduler_grants_carrier(struct tt_scheduler_pool *pool);
void tt_scheduler_grants_ticket(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                                const struct tt_frame_record *record);
/* A request that waits goes to the pool that has its model now. */
void tt_scheduler_grants_move(struct tt_scheduler_role *self, int64_t now,
                              struct tt_request *request);
void tt_scheduler_grants_cancel(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                                const struct tt_frame_record *record);
void tt_scheduler_grants_accepted(struct tt_scheduler_role *self, uint16_t from,
                                  const struct tt_frame_record *record);
void tt_scheduler_grants_done(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                              const struct tt_frame_record *record);
/* A member of a grant was left out, since its input did not come: it goes back to its frontend. */
void tt_scheduler_grants_missing(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                                 const struct tt_frame_record *record);
/* The backend's devices that have no plans left become executors. */
void tt_scheduler_grants_state(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                               const struct tt_frame *frame);
/* The backend's devices get no grants any more; what they had runs to its end. */
void tt_scheduler_grants_leave(struct tt_scheduler_role *self, int64_t now, uint16_t backend);
/* The backend's devices get no grants any more; what they had goes back to the frontends. */
void tt_scheduler_grants_lose(struct tt_scheduler_role *self, int64_t now, uint16_t backend,
                              bool died);
/* Requests that wait for absent models are dropped; what runs goes on. */
void tt_scheduler_grants_drop_absent(struct tt_scheduler_role *self, int64_t now);
/* All requests of the frontend leave. */
void tt_scheduler_grants_forget(struct tt_scheduler_role *self, int64_t now, uint16_t frontend);
/* The grant in this place of the device, which was parked, is sent. */
void tt_scheduler_grants_issue(struct tt_scheduler_role *self, int64_t now,
                               struct tt_granted_device *device, int32_t place);
/* The requests of the oldest grant, which is parked, go back to their frontends. */
void tt_scheduler_grants_give_back(struct tt_scheduler_role *self, int64_t now,
                                   struct tt_granted_device *device);
/* The grants of the device have changed: when it is overdue. */
void tt_scheduler_grants_settle(struct tt_scheduler_role *self,
                                const struct tt_granted_device *device);
/* The backend whose grant is overdue at `now` for the longest; TT_CLUSTER_NO_NODE: none is. */
uint16_t tt_scheduler_grants_overdue(const struct tt_scheduler_role *self, int64_t now);
int64_t tt_scheduler_grants_overdue_at(const struct tt_scheduler_role *self);

#endif
