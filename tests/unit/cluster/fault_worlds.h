/* Clusters in virtual time under faults that are drawn at random: no device obeys two epochs,
 * every request is answered once, and soon after the last fault nothing is late. A failing set of
 * faults is made smaller before it is printed. */
#ifndef TUTTI_TESTS_FAULT_WORLDS_H
#define TUTTI_TESTS_FAULT_WORLDS_H

#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FAULTS = 6 };

/* What the worlds are played with. */
struct fault_worlds {
    uint64_t count;
    const struct tt_scheduler_policy *policy; /* NULL: `deferred` */
    int32_t shared_permille;                  /* of inputs that backends read by themselves */
    int32_t remote_permille;                  /* of the others: so, but later */
};

struct outcome {
    int64_t quiet_from; /* requests accepted from here on must be in time */
    int64_t late, first_late_at, done, quiet;
};

static inline void on_ended(void *context, const struct tt_virtual_ending *ending) {
    struct outcome *self = context;
    if (ending->answer == TT_ANSWER_CANCELLED)
        return;
    bool is_good = ending->answer == TT_ANSWER_DONE && ending->ended_at <= ending->deadline_at;
    self->done += is_good;
    if (ending->accepted_at < self->quiet_from)
        return;
    self->quiet++;
    if (!is_good && self->late++ == 0)
        self->first_late_at = ending->accepted_at;
}

static inline int by_time(const void *a, const void *b) {
    const struct tt_fault *left = a, *right = b;
    return (left->at > right->at) - (left->at < right->at);
}

static inline int32_t draw_faults(struct tt_prng *prng, struct tt_fault *out_faults) {
    int32_t count = (int32_t)tt_prng_below(prng, MAX_FAULTS + 1);
    for (int32_t i = 0; i < count; i++) {
        struct tt_fault *fault = &out_faults[i];
        *fault = (struct tt_fault){
            .at = 100 * TT_MS + (int64_t)tt_prng_below(prng, 300000) * TT_US,
            .duration_ns =
                TT_MS +
                (int64_t)tt_prng_below(prng, tt_prng_below(prng, 2) ? 20000 : 400000) * TT_US,
            .kind = (enum tt_fault_kind)tt_prng_below(prng, TT_FAULT_KINDS),
            .node = (uint16_t)tt_prng_below(prng, tt_prng_below(prng, 2) ? 2 : WORLD_NODES),
            .other = TT_CLUSTER_NO_NODE};
        if (fault->kind == TT_FAULT_CUT && tt_prng_below(prng, 2))
            fault->other = (uint16_t)tt_prng_below(prng, WORLD_NODES);
    }
    qsort(out_faults, (size_t)count, sizeof(*out_faults), by_time);
    return count;
}

/* Two objectives after the last fault has ended. */
static inline int64_t quiet_from(const struct tt_fault *faults, int32_t count) {
    int64_t from = 0;
    for (int32_t i = 0; i < count; i++)
        from = tt_instant_max(from, faults[i].at + faults[i].duration_ns);
    return from + 2 * WORLD_SLO;
}

/* Returns the violation; NULL: all is well. */
static inline const char *run_world(const struct fault_worlds *self,
                                    const struct virtual_world *world, uint64_t seed,
                                    const struct tt_fault *faults, int32_t count,
                                    struct tt_virtual_result *out_result) {
    static char text[320];
    struct outcome outcome = {.quiet_from = quiet_from(faults, count)};
    struct tt_virtual_options options = virtual_world_options(world, seed);
    options.until_at = outcome.quiet_from + 300 * TT_MS;
    options.cancel_permille = 50;
    if (self->policy)
        options.policy = self->policy;
    options.shared_permille = self->shared_permille;
    options.remote_permille = self->remote_permille;
    options.faults = faults;
    options.fault_count = count;
    options.context = &outcome;
    options.ended = on_ended;
    struct tt_error why;
    assert_int_equal(tt_virtual_cluster_run(&options, out_result, &why), TT_OK);
    if (out_result->violation[0])
        return out_result->violation;
    assert_true(outcome.quiet > 0);
    if (outcome.late == 0)
        return NULL;
    snprintf(text, sizeof(text), "%d of %d requests after %d ms are late, the first of %d ms",
             (int)outcome.late, (int)outcome.quiet, (int)(outcome.quiet_from / TT_MS),
             (int)(outcome.first_late_at / TT_MS));
    return text;
}

/* Leaves faults out as long as the others still cause a violation, and prints what is left. */
static inline void shrink_and_print(const struct fault_worlds *self,
                                    const struct virtual_world *world, uint64_t seed,
                                    struct tt_fault *faults, int32_t count) {
    struct tt_virtual_result result;
    for (int32_t i = 0; i < count;) {
        struct tt_fault fewer[MAX_FAULTS];
        memcpy(fewer, faults, (size_t)i * sizeof(*faults));
        memcpy(fewer + i, faults + i + 1, (size_t)(count - i - 1) * sizeof(*faults));
        if (run_world(self, world, seed, fewer, count - 1, &result))
            memcpy(faults, fewer, (size_t)--count * sizeof(*faults));
        else
            i++;
    }
    print_message("seed %d: %s\n", (int)seed, run_world(self, world, seed, faults, count, &result));
    for (int32_t i = 0; i < count; i++) {
        char text[128];
        print_message("  %s\n", tt_fault_text(&faults[i], text, sizeof(text)));
    }
}

static inline void play_worlds(const struct fault_worlds *self) {
    struct virtual_world world;
    virtual_world_init(&world);
    int64_t events = 0, claims = 0, stale = 0, returned = 0, gone = 0, cancelled = 0, shared = 0;
    int64_t read = 0, unread = 0;
    for (uint64_t seed = test_seed(1), end = seed + self->count; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 7);
        struct tt_fault faults[MAX_FAULTS];
        int32_t count = draw_faults(&prng, faults);
        struct tt_virtual_result result;
        const char *violation = run_world(self, &world, seed, faults, count, &result);
        if (violation) {
            shrink_and_print(self, &world, seed, faults, count);
            fail();
        }
        events += result.events;
        claims += result.claims;
        stale += result.stale;
        returned += result.returned;
        gone += result.gone;
        cancelled += result.cancelled;
        shared += result.shared;
        read += result.read;
        unread += result.unread;
    }
    print_message("%d events, %d claims, %d stale grants, %d returned, %d gone\n", (int)events,
                  (int)claims, (int)stale, (int)returned, (int)gone);
    /* The faults were felt. */
    assert_true(claims > (int64_t)self->count && returned > 0 && gone > 0 && cancelled > 0);
    assert_true((shared > 0) == (self->shared_permille > 0));
    assert_true((read > 0) == (self->remote_permille > 0) &&
                (unread > 0) == (self->remote_permille > 0));
    virtual_world_fini(&world);
}

#endif
