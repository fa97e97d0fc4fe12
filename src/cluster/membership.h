/* A node's place in the coordination service (cluster/coordination.h), and its record of an epoch.
 *
 * Life: OUT -> LEASING -> JOINING -> IN, where the lease is renewed after a third of its time ->
 * OUT again when the lease has expired; then the record is looked at again, too. Whatever fails or
 * is not answered is tried again later. The record goes its own way: _record asks for a swap; if
 * another epoch is recorded meanwhile, the higher one stands, and the owner is notified.
 *
 * Pure, one thread. Implemented in membership.c. */
#ifndef TT_CLUSTER_MEMBERSHIP_H
#define TT_CLUSTER_MEMBERSHIP_H

#include "cluster/coordination.h"

enum tt_membership_state {
    TT_MEMBERSHIP_OUT,
    TT_MEMBERSHIP_LEASING,
    TT_MEMBERSHIP_JOINING,
    TT_MEMBERSHIP_IN,
};

/* A request that may be under way. */
struct tt_membership_call {
    uint64_t number; /* 0: none is */
    int64_t sent_at;
    int64_t retry_at; /* when none is under way: the next one; TT_NEVER: none is planned */
};

struct tt_membership {
    const char *name, *value;   /* borrowed */
    int64_t ttl_ns, timeout_ns; /* of the lease; of an answer */
    enum tt_membership_state state;
    struct tt_membership_call member, record;
    uint64_t numbers; /* of requests, ever */
    uint64_t lease;
    uint64_t wanted_epoch, known_epoch; /* to record; recorded, as far as is known */
    int64_t known_revision;
    int64_t failures; /* requests that failed or were not answered */
    void *context;
    void (*send)(void *context, const struct tt_coordination_request *request);
    /* This epoch is recorded: the wanted one, or a higher one. May be NULL. */
    void (*recorded)(void *context, int64_t now, uint64_t epoch);
};

/* The first request goes out at the first tick. */
void tt_membership_init(struct tt_membership *self, int64_t now, const char *name,
                        const char *value, int64_t ttl_ns, int64_t timeout_ns);
/* Epochs only grow; a lower one than before is ignored. */
void tt_membership_record(struct tt_membership *self, int64_t now, uint64_t epoch);
/* The node stops: its lease ends, if the request arrives. */
void tt_membership_leave(struct tt_membership *self);
void tt_membership_answered(struct tt_membership *self, int64_t now,
                            const struct tt_coordination_answer *answer);
/* The service reports the record unasked. */
void tt_membership_saw(struct tt_membership *self, int64_t now, uint64_t epoch, int64_t revision);
void tt_membership_tick(struct tt_membership *self, int64_t now);
int64_t tt_membership_next_at(const struct tt_membership *self);
void tt_membership_check(const struct tt_membership *self);

#endif
