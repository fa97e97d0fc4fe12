/* What a cluster asks of a coordination service: its members, and the epoch that is recorded.
 *
 * The service is never in the path of a request, and never decides that a node has failed: that is
 * for links and beats (cluster/scheduler_role.h). While it is away, joins and the record of the
 * primary wait, and requests notice nothing. Epochs are enforced at the devices; the record only
 * shows a scheduler that another one was elected while it was cut off.
 *
 * Requests are sent and answered at any later time, in any order, or never; each has a number, by
 * which its answer is known. What changes without a request is reported as it is seen (watch).
 * Life and retries are in cluster/membership.h. Types only: there is no .c file. */
#ifndef TT_CLUSTER_COORDINATION_H
#define TT_CLUSTER_COORDINATION_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum tt_coordination_verb {
    TT_COORDINATION_LEASE, /* a lease of ttl_ns. Answer: lease, ttl_ns as given */
    TT_COORDINATION_JOIN,  /* `name` is a member with `value` as long as the lease lives */
    TT_COORDINATION_KEEP,  /* the lease begins anew. Answer: ttl_ns; NOT_FOUND: it has expired */
    TT_COORDINATION_LEAVE, /* the lease ends, with what was joined under it */
    /* Compare and swap: `epoch` is recorded at `key` (PLACEMENT: `value`, whose first line is the
     * epoch) if the record's revision is `revision` (0: there is no record). Answer: is_done, and
     * the epoch and revision that stand. */
    TT_COORDINATION_SWAP,
};

/* What is recorded: the epoch of the primary, or its latest plan (cluster/plan_record.h). */
enum tt_coordination_key { TT_COORDINATION_PRIMARY, TT_COORDINATION_PLACEMENT };

struct tt_coordination_request {
    enum tt_coordination_verb verb;
    enum tt_coordination_key key; /* SWAP */
    uint64_t number;              /* > 0 */
    uint64_t lease;
    int64_t ttl_ns;
    uint64_t epoch;
    int64_t revision;
    const char *name, *value; /* JOIN, SWAP of PLACEMENT: value; borrowed for the call */
};

struct tt_coordination_answer {
    uint64_t number;
    enum tt_err err; /* UNAVAILABLE, TIMEOUT, INVALID: the service, or what it said, is of no use */
    uint64_t lease;
    int64_t ttl_ns;
    bool is_done;
    uint64_t epoch;
    int64_t revision;
};

/* What a service reports. All on the thread that calls `receive`. */
struct tt_coordination_events {
    void (*answered)(void *context, const struct tt_coordination_answer *answer);
    /* A member came, changed its value, or went. */
    void (*member)(void *context, const char *name, const char *value, bool is_there);
    void (*recorded)(void *context, uint64_t epoch, int64_t revision);
};

/* A service in the hands of a node; `self` is the service. None of these blocks. */
struct tt_coordination {
    void *self; /* NULL: there is none; nothing is called */
    void (*send)(void *self, const struct tt_coordination_request *request);
    /* Reports what came since the last call. Called after the `wake` that the service was given. */
    void (*receive)(void *self, const struct tt_coordination_events *events, void *context);
};

#endif
