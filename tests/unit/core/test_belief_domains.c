/* L5: what a domain believes includes the load of other domains on the same device. Two domains,
 * which know nothing of each other, run batches on one device in virtual time (core/device.h).
 * While both are busy, each learns the slowdown that their demands cause, within 17 batches and the
 * 8 of a pause between moves; when the other one stops, it forgets within as many. */
#include "core/belief.h"
#include "core/device.h"

#include "base/instant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DOMAINS = 2, MAX_BATCH = 8, FOLLOWS = 17 + TT_BELIEF_PAUSE };

struct domain {
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model prior;
    struct tt_belief *belief;
    int32_t demand_ppm, rows;
    bool pauses;        /* after its running batch */
    int64_t started_at; /* TT_NEVER: nothing runs */
    int64_t batches;
};

struct world {
    struct tt_device device;
    struct domain domains[DOMAINS];
    int64_t now;
};

static void open_world(struct world *w, int32_t first_ppm, int32_t second_ppm) {
    *w = (struct world){.now = 1};
    assert_int_equal(tt_device_init(&w->device, DOMAINS), TT_OK);
    for (int32_t d = 0; d < DOMAINS; d++) {
        struct domain *domain = &w->domains[d];
        /* unequal lengths, so that batches meet at changing phases */
        assert_int_equal(
            tt_profile_new_linear(TT_MS, (2 + 3 * d) * TT_MS, MAX_BATCH, &domain->profile, NULL),
            TT_OK);
        domain->step = (struct tt_step){.name = "s", .profile = domain->profile};
        domain->prior = (struct tt_step_model){.name = "m",
                                               .step_count = 1,
                                               .steps = &domain->step,
                                               .whole = domain->profile,
                                               .slo_ns = 50 * TT_MS,
                                               .max_batch = MAX_BATCH};
        domain->demand_ppm = d == 0 ? first_ppm : second_ppm;
        domain->rows = 4;
        domain->started_at = TT_NEVER;
        assert_int_equal(tt_belief_new(&domain->prior, 95, &domain->belief), TT_OK);
    }
}

static void close_world(struct world *w) {
    for (int32_t d = 0; d < DOMAINS; d++) {
        tt_belief_free(w->domains[d].belief);
        tt_profile_free(w->domains[d].profile);
    }
    tt_device_fini(&w->device);
}

static void begin_batches(struct world *w) {
    for (int32_t d = 0; d < DOMAINS; d++) {
        struct domain *domain = &w->domains[d];
        if (domain->pauses || domain->started_at != TT_NEVER)
            continue;
        domain->started_at = w->now;
        tt_device_start(&w->device, w->now, d, tt_profile_latency(domain->profile, domain->rows, 0),
                        domain->demand_ppm);
    }
}

/* Until domain 0 has ended `batches` more. */
static void run(struct world *w, int64_t batches) {
    int64_t until = w->domains[0].batches + batches;
    while (w->domains[0].batches < until) {
        begin_batches(w);
        w->now = tt_device_next_at(&w->device);
        int32_t d = tt_device_take_ended(&w->device, w->now);
        assert_true(d >= 0);
        struct domain *domain = &w->domains[d];
        struct tt_request request = {.rows = domain->rows};
        struct tt_task_item item = {.request = &request};
        struct tt_task task = {.repeat = 1,
                               .rows = domain->rows,
                               .count = 1,
                               .items = &item,
                               .outcome = TT_OUTCOME_DONE,
                               .started_at = domain->started_at,
                               .ended_at = w->now};
        domain->started_at = TT_NEVER;
        domain->batches++;
        tt_belief_finished(domain->belief, &task);
        tt_belief_check(domain->belief);
    }
}

/* What domain d believes, in permille of its profile. */
static int64_t centre(const struct world *w, int32_t d) {
    const struct domain *domain = &w->domains[d];
    return 1000 * tt_profile_latency(domain->belief->model.whole, domain->rows, 0) /
           tt_profile_latency(domain->profile, domain->rows, 0);
}
static int64_t tail(const struct world *w, int32_t d) {
    const struct domain *domain = &w->domains[d];
    return 1000 * tt_profile_tail(domain->belief->model.whole, domain->rows, 0) /
           tt_profile_latency(domain->profile, domain->rows, 0);
}

static void learns_and_forgets(int32_t first_ppm, int32_t second_ppm) {
    struct world w;
    open_world(&w, first_ppm, second_ppm);
    int64_t total = first_ppm + second_ppm;
    int64_t slowdown = total > TT_DEMAND_WHOLE ? total / 1000 : 1000; /* permille */
    w.domains[1].pauses = true;
    run(&w, 100);
    assert_int_equal(centre(&w, 0), 1000); /* alone */
    w.domains[1].pauses = false;
    run(&w, FOLLOWS);
    assert_in_range(centre(&w, 0), slowdown * 95 / 100, slowdown * 105 / 100);
    assert_in_range(tail(&w, 0), slowdown * 95 / 100, slowdown * 105 / 100);
    run(&w, 100); /* the other one has learnt the same by now */
    assert_in_range(centre(&w, 1), slowdown * 95 / 100, slowdown * 105 / 100);
    w.domains[1].pauses = true;
    run(&w, 1 + FOLLOWS); /* the first is still beside the other's last one */
    assert_in_range(centre(&w, 0), 950, 1050);
    close_world(&w);
}

static void test_demands_that_exceed_the_device(void **state) {
    (void)state;
    learns_and_forgets(1000000, 1000000);
    learns_and_forgets(800000, 600000);
    learns_and_forgets(500000, 1000000);
}

/* Batches that do not disturb each other change no belief. */
static void test_demands_that_fit(void **state) {
    (void)state;
    learns_and_forgets(500000, 500000);
    learns_and_forgets(100000, 900000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demands_that_exceed_the_device),
        cmocka_unit_test(test_demands_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
