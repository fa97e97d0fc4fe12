/* What the two halves of the deferred family say to each other, and nothing else passes between
 * them: on one thread they are calls with these structs, on several they travel in latest-value
 * registers (candidate, load, fleet: only the newest counts) and rings (grant, dispatched: each one
 * counts).
 *
 *   model half -> rank half   candidate   "this batch could run from exec_at, and no later than
 * latest_at" rank half -> model half   grant       "take executor so-and-so, free at free_at" model
 * half -> rank half   dispatched  "I did: it is free again at ...", or "I had nothing for it" model
 * half -> rank half   load        every 100 ms: what the model's arrivals ask of the devices rank
 * half -> model half   fleet       every 100 ms: how many devices there are and how hard they are
 * used */
#ifndef TT_POLICY_DEFERRED_DEFERRED_MESSAGES_H
#define TT_POLICY_DEFERRED_DEFERRED_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

struct tt_deferred_candidate {
    int32_t model;
    uint32_t generation; /* of the candidates of this model; grows */
    int32_t size;        /* rows; 0: the model has nothing to run */
    int32_t left;        /* rows that wait, those of this batch included */
    int64_t exec_at;     /* start it not before this, */
    int64_t latest_at;   /* and not after this */
    int64_t key;         /* the smallest goes first; ties: smaller model */
    int64_t lead_ns;     /* what the message to the executor takes: decide this much earlier */
};

struct tt_deferred_grant {
    int32_t model;
    uint32_t generation; /* of the candidate that won */
    int32_t executor;
    int32_t idle;    /* executors free at this instant, this one included */
    int64_t free_at; /* expected; <= now: it is free */
    int64_t gap_ns;  /* time between dispatches over the whole fleet, averaged */
};

struct tt_deferred_dispatched {
    int32_t executor;
    bool taken; /* false: there was nothing to run, the executor is as free as before */
    int64_t start_at, free_at; /* of the batch, if taken */
};

/* Shares of one device in units of 1e-9. A batch of b rows makes the model use alpha_share +
 * beta_share / b. */
struct tt_deferred_load {
    int32_t model;
    int64_t alpha_share, beta_share;
    int64_t gather_milli; /* rows / 1000 that gather while a head waits up to its frontrun */
};

struct tt_deferred_fleet {
    int32_t executors; /* up */
    int64_t psi_ppm;   /* the share of gather_milli that the devices need as batch size; 1000000 at
                          most */
    int64_t need_ppm;  /* of the devices, at batches of gather_milli; above 1000000: overload */
    int64_t gap_ns;
};

#endif
