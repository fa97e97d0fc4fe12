/* The backend: devices that run batches for the primary scheduler.
 *
 * Life of a plan (a granted batch): COLLECTING, the inputs were asked for -> READY, all that can
 * come are here -> RUNNING -> its results are with the frontends, and the scheduler hears DONE. The
 * plans of one device run in the order of their grants, each as soon as the one before has ended.
 * DONE says how long the plan was READY or RUNNING: what is left of the scheduler's round trip is
 * the delay of its messages and inputs (S4). Members whose frontend has no input for them any more
 * are left out; so are inputs that do not come in time, and members whose client goes before the
 * plan runs.
 *
 * A driver whose server batches the requests of several plans for itself may answer each member
 * when it ends (tt_backend_answer), and report what it emitted before (tt_backend_emitted). The
 * plan ends with its last member.
 *
 * DONE implies ACCEPTED, which would wake the scheduler once more. So that is sent only of plans
 * that have not ended within a quarter of the time after which the scheduler suspects their
 * backend.
 *
 * Fencing: a grant is obeyed only if its epoch is the highest claimed. Plans accepted before a
 * claim go on, and the answer to the claim says how many there are.
 *
 * One thread. Implemented in backend.c. */
#ifndef TT_CLUSTER_BACKEND_H
#define TT_CLUSTER_BACKEND_H

#include "cluster/allegiance.h"
#include "cluster/model_duty.h"

enum tt_plan_state { TT_PLAN_FREE, TT_PLAN_COLLECTING, TT_PLAN_READY, TT_PLAN_RUNNING };

struct tt_plan_member {
    uint64_t id;
    int64_t deadline_at; /* TT_NEVER: none, or not known */
    int64_t words;       /* reported */
    int32_t length;
    uint16_t frontend, attempt, rows;
    bool awaited, is_here;
    bool is_answered;  /* before the end of the plan */
    bool is_reading;   /* awaited: the driver reads it without the frontend's help */
    bool is_withdrawn; /* while it runs: its frontend has a newer attempt, or no client */
    void *input;       /* the driver's; NULL when the member is made */
};

struct tt_plan {
    uint64_t number, epoch;
    int64_t fetched_by;
    int64_t ready_at;  /* READY, RUNNING: when its inputs were here; -1: some did not come */
    int64_t accept_at; /* when ACCEPTED is due if it has not ended before; TT_NEVER: it was sent */
    enum tt_plan_state state;
    uint16_t model;
    int32_t count, awaited;
    struct tt_plan_member *members; /* [max_batch of all models] */
};

struct tt_backend_device {
    struct tt_plan *plans; /* [depth], a ring from `oldest` */
    int32_t oldest, count;
    uint64_t last_epoch, last_number; /* of the latest grant accepted */
};

struct tt_backend {
    const struct tt_cluster_settings *settings;
    uint16_t number;
    int32_t device_count, max_batch;
    struct tt_allegiance primary;
    bool is_leaving;
    struct tt_backend_device *devices; /* [device_count] */
    struct tt_plan *plans;
    struct tt_plan_member *members;
    struct tt_model_duty models; /* which of them this node serves; the driver sets `act` */
    struct tt_outbox outbox;
    void *context;
    /* Runs the plan on the device; tt_backend_ran follows, once. The plan is borrowed until then.
     */
    void (*run)(void *context, int64_t now, int32_t device, const struct tt_plan *plan);
    /* The member's client has gone. If the plan does not run yet, the member is left out of it and
     * `input` is the driver's to release; else the result is of no use. NULL: not wanted. */
    void (*withdrawn)(void *context, const struct tt_plan *plan, struct tt_plan_member *member);
    /* A plan was granted. Sets `is_here` of each member whose input the driver has read without the
     * frontend's help (fleet/node_memory.h), and its `input`; sets `is_reading` of each that it
     * reads so, and calls tt_backend_read later. The others are asked for. NULL: all are. */
    void (*read_inputs)(void *context, struct tt_plan *plan);
    int64_t accepted, refused, rejected; /* grants; records that make no sense */
};

TT_MUST_CHECK enum tt_err tt_backend_init(struct tt_backend *self,
                                          const struct tt_cluster_settings *settings,
                                          uint16_t number);
void tt_backend_fini(struct tt_backend *self);
void tt_backend_receive(struct tt_backend *self, int64_t now, uint16_t from,
                        const struct tt_frame *frame);
/* The member that waits for this input, and its model; NULL: none does. The driver may set its
 * `input` before it reports the frame INPUT. */
struct tt_plan_member *tt_backend_awaited(struct tt_backend *self, uint16_t from, uint64_t id,
                                          uint16_t attempt, uint16_t *out_model);
/* A member that the driver was reading: true: its input is here, and `input` is set; false: it
 * could not be read, and the frontend is asked for it. No-op if none waits for it any more. */
void tt_backend_read(struct tt_backend *self, int64_t now, uint16_t from, uint64_t id,
                     uint16_t attempt, bool is_here);
void tt_backend_link(struct tt_backend *self, int64_t now, uint16_t peer, enum tt_link link);
/* A member of a running plan has its result. Once, before tt_backend_ran. */
void tt_backend_answer(struct tt_backend *self, const struct tt_plan *plan,
                       struct tt_plan_member *member, bool is_computed);
/* A member of a running plan without result has emitted so many more words (1 .. UINT16_MAX). */
void tt_backend_emitted(struct tt_backend *self, const struct tt_plan *plan,
                        struct tt_plan_member *member, int32_t count);
void tt_backend_ran(struct tt_backend *self, int64_t now, int32_t device, bool is_computed);
void tt_backend_tick(struct tt_backend *self, int64_t now);
/* It asks for no more grants, now and of every later primary. What was granted still runs. */
void tt_backend_leave(struct tt_backend *self);
/* True if nothing is granted to it. */
bool tt_backend_is_idle(const struct tt_backend *self);
int64_t tt_backend_next_at(const struct tt_backend *self);
void tt_backend_check(const struct tt_backend *self);

#endif
