/* A whole cluster in virtual time: every role, the network between them, clients and faults.
 *
 * All messages pass through the codec. Links deliver in order after a random delay, as TCP does;
 * beats and opinions may be lost, repeated and overtaken, as datagrams are. Faults come from a
 * list: a node crashes and restarts, freezes, or loses its links; the coordination service does not
 * answer. The same options give the same events.
 *
 * After every event the invariants are checked; a violation is described in `violation` and ends
 * the run:
 *   - no device accepts a grant of an epoch below one that it accepted before, or below the highest
 *     claimed at its backend;
 *   - every request that a frontend accepted is answered exactly once, unless the frontend crashed;
 *   - requests accepted = answered + cancelled + gone with a frontend + under way;
 *   - when none is under way and no fault lasts, none is left at the primary and at the backends;
 *   - the books of each role agree (tt_frontend_check and its like).
 *   - without faults, no backend is granted a model that it does not serve (a takeover amid a load
 *     that fails may do that: the requests fail);
 *   - no backend is granted a model that it lacks;
 *   - a client that streams gets the words of one backend, and all of them before its result; only
 *     a request that ends as broken, late or cancelled has some of them;
 *   - when a load or unload is answered, all nodes that the primary knows have carried it out, and
 * in the end all nodes serve what the primary says. Whether requests were late is for the caller to
 * judge from the endings.
 *
 * Implemented in virtual_cluster.c (clients, events, checks), virtual_node.c (roles),
 * virtual_models.c (loading), virtual_coordination.c, virtual_faults.c and virtual_network.c
 * (links). */
#ifndef TT_CLUSTER_VIRTUAL_CLUSTER_H
#define TT_CLUSTER_VIRTUAL_CLUSTER_H

#include "cluster/backend.h"
#include "cluster/frontend.h"
#include "cluster/scheduler_role.h"

enum tt_fault_kind {
    TT_FAULT_CRASH,  /* the process ends, and another one starts after the duration */
    TT_FAULT_FREEZE, /* the process does nothing for the duration */
    TT_FAULT_CUT,    /* no message between `node` and `other` for the duration */
    TT_FAULT_RECORD, /* the coordination service does not answer for the duration */
    TT_FAULT_RESIGN, /* the primary hands over */
    TT_FAULT_LEAVE,  /* a backend drains; after the duration another process takes its place */
    TT_FAULT_SLOW,   /* batches that a backend begins in the duration take 20 times as long */
    TT_FAULT_KINDS,
};

struct tt_fault {
    int64_t at, duration_ns;
    enum tt_fault_kind kind;
    uint16_t node, other; /* other: TT_CLUSTER_NO_NODE: all */
};

/* Writes one line, "freeze of node 3 at 120000 us for 40000 us". Returns `out`. */
const char *tt_fault_text(const struct tt_fault *fault, char *out, size_t capacity);

struct tt_virtual_ending {
    int64_t accepted_at, ended_at, deadline_at;
    enum tt_answer answer;
};

struct tt_virtual_options {
    const struct tt_cluster_settings *settings;
    const struct tt_scheduler_policy *policy;
    const struct tt_fault *faults; /* [fault_count]; ascending */
    int32_t fault_count;
    uint64_t seed;
    int64_t until_at; /* clients stop; the run goes on until all is answered */
    int64_t gap_ns;   /* mean time between two requests, at all frontends together */
    int64_t slo_ns;
    int64_t delay_ns;         /* mean delay of a message */
    const int64_t *far_ns;    /* [node_count]: what its messages take more; NULL: nothing */
    int64_t input_ns;         /* what an input takes more, after those of its frame */
    int32_t run_permille;     /* of what its profile says a batch takes; 0: all of it */
    int64_t link_timeout_ns;  /* a cut so long ends the connections */
    int32_t loss_permille;    /* of datagrams, also of those that are repeated */
    int32_t cancel_permille;  /* of clients: they set no deadline, and go within two slo_ns */
    int64_t wish_gap_ns;      /* mean time between two commands to load or unload; 0: none comes */
    int32_t failure_permille; /* of loads */
    /* Of inputs: their backend shares memory with the frontend, and reads them by itself. */
    int32_t shared_permille;
    int32_t remote_permille; /* of the others: it reads them so, and that takes `delay_ns` */
    int64_t place_gap_ns;    /* between two calls of `place`; 0: none */
    int64_t load_ns;         /* the longest load or unload; 0: 20 ms */
    int32_t check_every;     /* events between two checks of all books; 1: always */
    void *context;
    void (*ended)(void *context, const struct tt_virtual_ending *ending);
    /* A scheduler claimed an epoch. May be NULL, as `ended`. */
    void (*claimed)(void *context, int64_t now, uint64_t epoch);
    /* A look at the placement: for each scheduler that believes to be primary. */
    void (*place)(void *context, int64_t now, struct tt_scheduler_role *primary);
    /* A plan of this scheduler was carried out or dropped. May be NULL. */
    void (*placed)(void *context, int64_t now, uint16_t scheduler,
                   const struct tt_placement_outcome *outcome);
    /* [node_count][model_count]: backends that do not have the model; NULL: all have all. */
    const bool *lacks;
    /* Time between two models that come, as long as there is room for them; 0: none comes. All
     * nodes get notice at the same instant. `come` adds one to the settings. */
    int64_t model_gap_ns;
    void (*come)(void *context);
    /* [model_count]: the shares of the models among the requests, in thousandths; NULL: equal. */
    const int32_t *shares;
    bool emits; /* requests for model 0 stream tt_virtual_words() words each */
};

/* How many words a request of a model that emits has: 1 to 4. */
static inline int64_t tt_virtual_words(uint64_t id) { return 1 + (int64_t)((id >> 16) % 4); }

struct tt_virtual_result {
    int64_t events, accepted, refused, answered, cancelled, gone, claims, wishes, wished, unwished,
        placed, unplaced, unserved, stale, returned, suspected, avoided, shared, read, unread,
        words, broken;
    int32_t members;     /* that the coordination service has in the end */
    char violation[256]; /* empty: none */
};

/* Runs to the end, or to the first violation. Errors: NO_MEMORY, or those of the policy. */
TT_MUST_CHECK enum tt_err tt_virtual_cluster_run(const struct tt_virtual_options *options,
                                                 struct tt_virtual_result *out_result,
                                                 struct tt_error *why);

#endif
