/* The frontend: owns requests from their acceptance to their answer.
 *
 * Life of a request: HELD while no scheduler is known -> TICKETED, the scheduler has it -> FETCHED,
 * a backend asked for its input -> answered. It goes back to TICKETED, with a new attempt, if its
 * backend dies or is suspected, and if a new scheduler claims before a backend fetched it. A result
 * counts whichever attempt it is of, if the request is not answered yet. A request that was on
 * TT_FRONTEND_DEATHS backends that died is not tried again. The end of one backend counts once,
 * although the frontend and the scheduler both notice it, and the scheduler may be the later one
 * and grant to it again.
 *
 * A request that streams gets the words of one backend and attempt only: those of the latest fetch.
 * From its first word on it cannot be tried again. If its backend dies, or the link to it is lost,
 * it ends as BROKEN. If the scheduler only suspects its backend, it stays there until the result
 * comes, or the deadline.
 *
 * The deadline bounds everything: `grace_ns` after it, a request is answered as TIMED_OUT.
 *
 * The primary says of which models no backend takes batches. Requests to these are refused.
 *
 * One thread. Implemented in frontend.c. */
#ifndef TT_CLUSTER_FRONTEND_H
#define TT_CLUSTER_FRONTEND_H

#include "base/heap.h"
#include "cluster/allegiance.h"
#include "cluster/model_duty.h"

enum { TT_FRONTEND_DEATHS = 2, TT_FRONTEND_ATTEMPTS = 1000 };

enum tt_answer {
    TT_ANSWER_DONE,
    TT_ANSWER_FAILED,      /* a backend could not compute it */
    TT_ANSWER_DROPPED,     /* the scheduler refused it; `reason` says why */
    TT_ANSWER_TIMED_OUT,   /* no answer came in time */
    TT_ANSWER_QUARANTINED, /* its backends died, one after the other */
    TT_ANSWER_CANCELLED,   /* its client has gone */
    TT_ANSWER_BROKEN,      /* its backend was lost after the first word; `reason`: the node */
};

struct tt_frontend_request {
    uint64_t id; /* 0: free */
    int64_t deadline_at;
    void *user;
    int32_t length, next_free;
    uint16_t model, rows, priority;
    uint16_t attempt;      /* of the latest ticket */
    uint16_t backend;      /* that fetched the input; TT_CLUSTER_NO_NODE: none */
    uint16_t fetched;      /* the attempt of the latest fetch, if there is a backend */
    uint16_t dead_backend; /* whose end counted last; TT_CLUSTER_NO_NODE: none, or it is back */
    uint8_t deaths;
    bool ticketed; /* the current scheduler has a ticket of this attempt */
    bool streams;  /* its client takes words as they come */
    int64_t words; /* that its client got */
};

struct tt_frontend {
    const struct tt_cluster_settings *settings;
    uint16_t number;
    struct tt_allegiance primary;
    bool linked; /* to the primary */
    int64_t alone_since;
    struct tt_frontend_request *requests; /* [request_limit] */
    int32_t first_free, live;
    uint64_t generation;         /* of the next request; never reused, also after a restart */
    struct tt_heap due;          /* requests with deadlines, by when they are given up */
    struct tt_model_duty models; /* which of them this node serves; the driver sets `act` */
    bool *absent;                /* [capacity]: no backend takes batches of the model */
    struct tt_outbox outbox;
    void *context;
    void (*answered)(void *context, void *user, enum tt_answer answer, int32_t reason);
    /* So many more words of the request have come from the backend, in order. */
    void (*words)(void *context, void *user, uint16_t backend, int32_t count);
    /* A wish was carried out; `failure`: a negated enum tt_err, 0: it was done. */
    void (*wished)(void *context, uint64_t number, uint16_t failure);
    int64_t accepted, ended, rejected; /* rejected: records from other roles that make no sense */
};

/* `incarnation` differs from those of earlier lives of this node. */
TT_MUST_CHECK enum tt_err tt_frontend_init(struct tt_frontend *self,
                                           const struct tt_cluster_settings *settings,
                                           uint16_t number, uint16_t incarnation, int64_t now);
/* Requests that are still there get no answer. */
void tt_frontend_fini(struct tt_frontend *self);

/* The number of the request among those of its frontend, below request_limit if the id is valid. */
static inline int32_t tt_frontend_index(uint64_t id) { return (int32_t)(id & 0xffff); }

struct tt_frontend_submission {
    uint16_t model, rows, priority;
    int32_t length;
    int64_t deadline_at; /* TT_NEVER: none */
    bool streams;
    void *user;
};
/* Accepts a request: `answered` is called exactly once, never before this returns. Errors:
 * UNAVAILABLE: no primary for `patience_ns`, or the model is absent; BUSY: request_limit. */
TT_MUST_CHECK enum tt_err tt_frontend_submit(struct tt_frontend *self, int64_t now,
                                             const struct tt_frontend_submission *submission,
                                             uint64_t *out_id);
/* The client of the request has gone. Its places at the scheduler and at its backend are given
 * back, and `answered` is called with TT_ANSWER_CANCELLED before this returns. False: no request is
 * under way with this id. */
bool tt_frontend_cancel(struct tt_frontend *self, uint64_t id);
/* Asks the primary to load or unload a model for all (cluster/model_set.h). `wished` follows,
 * unless the primary changes. False: there is no primary. */
bool tt_frontend_wish(struct tt_frontend *self, uint64_t number, uint16_t model, bool is_load);
/* Models are absent, and this node serves no other one. */
bool tt_frontend_is_starved(const struct tt_frontend *self);
/* The request that is under way with this id; NULL: there is none. */
struct tt_frontend_request *tt_frontend_find(struct tt_frontend *self, uint64_t id);
void tt_frontend_receive(struct tt_frontend *self, int64_t now, uint16_t from,
                         const struct tt_frame *frame);
void tt_frontend_link(struct tt_frontend *self, int64_t now, uint16_t peer, enum tt_link link);
void tt_frontend_tick(struct tt_frontend *self, int64_t now);
int64_t tt_frontend_next_at(const struct tt_frontend *self);
void tt_frontend_check(const struct tt_frontend *self);

#endif
