/* Early refusal: when it begins and ends, and the batch size that it keeps. The size is compared
 * with a naive search over all sizes. */
#include "base/instant.h"
#include "base/prng.h"
#include "core/overload.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct fixture {
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model model;
};

static void init(struct fixture *f, int64_t alpha_ns, int64_t beta_ns, int32_t max_batch,
                 int64_t slo_ns) {
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(alpha_ns, beta_ns, max_batch, &f->profile, &why), TT_OK);
    f->step = (struct tt_step){.name = "s", .profile = f->profile};
    f->model = (struct tt_step_model){.name = "m",
                                      .step_count = 1,
                                      .steps = &f->step,
                                      .whole = f->profile,
                                      .slo_ns = slo_ns,
                                      .max_batch = max_batch};
}

/* One window: `offered` requests of one row at its begin, of which so many are served and lost; the
 * arrival that closes it. */
static void window(struct tt_overload *o, const struct fixture *f, int64_t *at, int32_t offered,
                   int32_t served, int32_t lost, int32_t executors) {
    for (int32_t i = 1; i < offered; i++)
        tt_overload_arrived(o, *at, &f->model, 1, 0, executors);
    for (int32_t i = 0; i < served; i++)
        tt_overload_served(o, 1);
    for (int32_t i = 0; i < lost; i++)
        tt_overload_lost(o, 1);
    *at += f->model.slo_ns;
    tt_overload_arrived(o, *at, &f->model, 1, 0, executors);
}

static void losses_begin_and_end_it(void **state) {
    (void)state;
    struct fixture f;
    init(&f, TT_MS, 5 * TT_MS, 32, 50 * TT_MS);
    struct tt_overload o = {0};
    int64_t at = 0;
    for (int32_t i = 0; i < 10; i++) {
        window(&o, &f, &at, 128, 127, 1, 1); /* one in 128: calm */
        assert_int_equal(o.target, 0);
    }
    window(&o, &f, &at, 128, 126, 2, 1); /* one in 64 */
    assert_true(o.target > 0);
    for (int32_t i = 0; i < 3; i++) {
        window(&o, &f, &at, 128, 128, 0, 1);
        assert_true(o.target > 0);
    }
    window(&o, &f, &at, 128, 128, 0, 1); /* the fourth without */
    assert_int_equal(o.target, 0);
    window(&o, &f, &at, 128, 64, 64, 1);
    assert_true(o.target > 0);
    at += 20 * f.model.slo_ns; /* a long pause */
    tt_overload_arrived(&o, at, &f.model, 1, 0, 1);
    assert_int_equal(o.target, 0);
    tt_profile_free(f.profile);
}

/* From batches of one row the target rises to the largest that the SLO allows: 2 l(b) on one
 * executor. */
static void the_target_rises_to_the_largest(void **state) {
    (void)state;
    struct fixture f;
    init(&f, TT_MS, 5 * TT_MS, 64, 50 * TT_MS);
    struct tt_overload o = {0};
    int64_t at = 0, batch = 1;
    for (int32_t i = 0; i < 40; i++) {
        int64_t served = batch * f.model.slo_ns / f.profile->latency_ns[batch];
        window(&o, &f, &at, 500, (int32_t)served, 400, 1);
        assert_true(o.target >= batch - 1);
        batch = o.target;
    }
    assert_in_range(batch, 19, 20); /* 2 (5 + 20) = 50 */
    tt_profile_free(f.profile);
}

static void the_target_is_the_largest_that_fits(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    for (int32_t round = 0; round < 2000; round++) {
        struct fixture f;
        int32_t max_batch = 1 + (int32_t)tt_prng_below(&prng, 64);
        init(&f, 1 + (int64_t)tt_prng_below(&prng, 3 * TT_MS),
             (int64_t)tt_prng_below(&prng, 20 * TT_MS), max_batch,
             TT_MS + (int64_t)tt_prng_below(&prng, 100 * TT_MS));
        struct tt_overload o = {0};
        int64_t at = 0;
        int32_t executors = 1 + (int32_t)tt_prng_below(&prng, 8);
        window(&o, &f, &at, 200, 1 + (int32_t)tt_prng_below(&prng, 200), 100, executors);
        int32_t expected = 1;
        for (int32_t b = 2; b <= max_batch; b++) {
            __int128 gather_ns = (__int128)b * 1000 * TT_S / o.rate_mhz * 2 * executors;
            gather_ns /= executors + 1;
            if (gather_ns + f.profile->tail_ns[b] <= f.model.slo_ns)
                expected = b;
        }
        assert_int_equal(o.target, expected);
        tt_profile_free(f.profile);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_begin_and_end_it),
        cmocka_unit_test(the_target_rises_to_the_largest),
        cmocka_unit_test(the_target_is_the_largest_that_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
