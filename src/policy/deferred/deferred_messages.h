/* The messages between the two halves of the deferred family. Nothing else passes between them. On
 * one thread they are calls with these structs. On several threads, candidate, load and fleet
 * travel in latest-value registers, because only the newest counts. Grant and dispatched travel in
 * rings, because each one counts.
 *
 * - candidate, model half -> rank half: "this batch can run from exec_at on, but not after
 *   latest_at".
 * - grant, rank half -> model half: "take this executor, free at free_at".
 * - dispatched, model half -> rank half: "taken, free again at ...", or "nothing to run".
 * - load, model half -> rank half, every 100 ms: the device time that the model's arrivals need.
 * - fleet, rank half -> model half, every 100 ms: the number of devices and their utilisation.
 *
 * Types only. */
#ifndef TT_POLICY_DEFERRED_DEFERRED_MESSAGES_H
#define TT_POLICY_DEFERRED_DEFERRED_MESSAGES_H

#include "core/network_delay.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_deferred_candidate {
    int32_t model;
    uint32_t generation; /* number of the candidate, rising per model */
    int32_t size;        /* rows; 0: the model has nothing to run */
    int32_t left;        /* waiting rows, those of this batch included */
    int64_t exec_at;     /* the earliest start */
    int64_t latest_at;   /* the latest start that is in time */
    int64_t key;         /* the smallest goes first; ties: smaller model */
    int64_t lead_ns;     /* duration of the message to the executor: the decision must be this much
                            earlier */
    int32_t demand_ppm;  /* of its batch: the share of a device; 0: not known */
};

enum { TT_DEFERRED_FREE_TIMES = 16 };

/* When executors other than the granted one are free, as expected; before now: they are. One that
 * is late is expected to take as long again as it is late by now. */
struct tt_deferred_free_times {
    int32_t count;
    bool more;                               /* other executors are free later than these */
    int64_t free_at[TT_DEFERRED_FREE_TIMES]; /* ascending */
};

struct tt_deferred_grant {
    int32_t model;
    uint32_t generation; /* of the winning candidate */
    int32_t executor;
    int32_t idle;                  /* number of executors free at this instant, this one included */
    int64_t free_at;               /* expected; <= now: it is free */
    int64_t gap_ns;                /* mean time between dispatches over the whole fleet */
    struct tt_network_delay delay; /* S4: of messages to the executor */
    /* The rank half's, unchanged until the grant is answered; NULL: it gives none. */
    const struct tt_deferred_free_times *others;
};

struct tt_deferred_dispatched {
    int32_t executor;
    bool taken;                /* false: nothing to run, the executor stays free */
    int64_t start_at, free_at; /* of the batch, if taken */
};

/* Shares of one device in units of 1e-9. With batches of b rows the model uses alpha_share +
 * beta_share / b. */
struct tt_deferred_load {
    int32_t model;
    int64_t alpha_share, beta_share;
    int64_t gather_milli; /* rows / 1000 that arrive while a head waits until its frontrun */
    int32_t demand_ppm;   /* of a batch of so many rows; 0: not known */
};

struct tt_deferred_fleet {
    int32_t executors; /* number that are up */
    int32_t each;      /* of them on a device, if they share devices; else 1 */
    uint32_t number;   /* of the loads that it answers, between threads: with the same one only the
                          delay is new */
    int64_t psi_ppm;   /* the share of gather_milli that the devices need as batch size; at most
                          1000000 */
    int64_t need_ppm;  /* utilisation of the devices with batches of gather_milli; above 1000000:
                          overload */
    int64_t gap_ns;
    struct tt_network_delay delay; /* S4: of messages to executors, the longest */
};

#endif
