#include "lab/load/arrivals.h"

#include "base/instant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tt_arrivals_model model(const char *name, int64_t weight) {
    return (struct tt_arrivals_model){.name = name, .weight = weight, .slo_ns = 10, .rows = 1};
}

static struct tt_arrivals *make(struct tt_arrivals_options options) {
    struct tt_arrivals *arrivals = tt_arrivals_new(&options);
    assert_non_null(arrivals);
    return arrivals;
}

static void uniform_is_exact(void **state) {
    (void)state;
    struct tt_arrivals_model m = model("M", 1);
    struct tt_arrivals *arrivals = make((struct tt_arrivals_options){.models = &m,
                                                                     .model_count = 1,
                                                                     .process = TT_PROCESS_UNIFORM,
                                                                     .interval_ns = 750000,
                                                                     .duration_ns = TT_S});
    struct tt_sim_arrival a;
    int64_t k = 0;
    for (; tt_arrivals_next(arrivals, &a); k++) {
        assert_int_equal(a.at, 750000 * k);
        assert_int_equal(a.deadline_at, a.at + 10);
    }
    assert_int_equal(k, 1334);
    tt_arrivals_free(arrivals);
}

static void poisson_divides_by_weight(void **state) {
    (void)state;
    struct tt_arrivals_model models[] = {model("A", 3), model("B", 1), model("none", 0)};
    struct tt_arrivals *arrivals = make((struct tt_arrivals_options){.models = models,
                                                                     .model_count = 3,
                                                                     .rate = 4000 * TT_RATE_ONE,
                                                                     .duration_ns = 100 * TT_S,
                                                                     .seed = 5});
    struct tt_sim_arrival a;
    int64_t counts[3] = {0}, last = 0;
    while (tt_arrivals_next(arrivals, &a)) {
        assert_true(a.at >= last && a.at < 100 * TT_S);
        last = a.at;
        counts[a.model]++;
    }
    assert_true(llabs(counts[0] - 300000) < 5 * 548);
    assert_true(llabs(counts[1] - 100000) < 5 * 317);
    assert_int_equal(counts[2], 0);
    tt_arrivals_free(arrivals);
}

/* A's requests come at the same instants regardless of other models, as long as its own rate is the
 * same. */
static void a_stream_is_its_own(void **state) {
    (void)state;
    struct tt_arrivals_model alone[] = {model("A", 1)}, both[] = {model("B", 1), model("A", 1)};
    struct tt_arrivals_options options = {.models = alone,
                                          .model_count = 1,
                                          .process = TT_PROCESS_GAMMA,
                                          .shape_ppm = 300000,
                                          .rate = 100 * TT_RATE_ONE,
                                          .duration_ns = 20 * TT_S,
                                          .seed = 9};
    struct tt_arrivals *one = make(options);
    options.models = both;
    options.model_count = 2;
    options.rate *= 2;
    struct tt_arrivals *two = make(options);
    struct tt_sim_arrival a, b;
    int64_t count = 0;
    while (tt_arrivals_next(one, &a)) {
        do
            assert_true(tt_arrivals_next(two, &b));
        while (b.model != 1);
        assert_int_equal(a.at, b.at);
        count++;
    }
    assert_true(count > 1000);
    tt_arrivals_free(one);
    tt_arrivals_free(two);
}

/* Two loads in turn, at unlike rates, from the gaps that the first kept, and beyond them. */
static void kept_gaps_are_the_gaps(void **state) {
    (void)state;
    struct tt_arrivals_model models[] = {model("A", 3), model("B", 1)};
    struct tt_arrivals_options options = {.models = models,
                                          .model_count = 2,
                                          .process = TT_PROCESS_GAMMA,
                                          .shape_ppm = 300000,
                                          .duration_ns = 50 * TT_S,
                                          .seed = 9};
    for (int64_t room = 0; room <= 14000; room += 7000) { /* of 15,000 gaps */
        struct tt_kept_gaps *kept = tt_kept_gaps_new(2);
        kept->room = room;
        for (int64_t rate = 100; rate <= 300; rate += 100) {
            options.rate = rate * TT_RATE_ONE;
            options.kept_gaps = NULL;
            struct tt_arrivals *plain = make(options);
            options.kept_gaps = kept;
            struct tt_arrivals *one = make(options), *two = make(options);
            struct tt_sim_arrival a, b;
            int64_t count = 0;
            for (; tt_arrivals_next(plain, &a); count++) {
                assert_true(tt_arrivals_next(one, &b));
                assert_true(a.at == b.at && a.model == b.model);
                if (count % 2) /* half as fast */
                    assert_true(tt_arrivals_next(two, &b));
            }
            assert_false(tt_arrivals_next(one, &b));
            assert_true(count > 40 * rate);
            tt_arrivals_free(plain);
            tt_arrivals_free(one);
            tt_arrivals_free(two);
        }
        assert_int_equal(kept->room, 0);
        tt_kept_gaps_free(kept);
    }
}

static void segments_change_the_rate(void **state) {
    (void)state;
    struct tt_arrivals_model m = model("M", 1);
    const struct tt_rate_segment segments[] = {{10 * TT_S, 1000 * TT_RATE_ONE},
                                               {10 * TT_S, 0},
                                               {10 * TT_S, 5000 * TT_RATE_ONE},
                                               {1 * TT_S, 200 * TT_RATE_ONE}};
    struct tt_arrivals *arrivals = make((struct tt_arrivals_options){.models = &m,
                                                                     .model_count = 1,
                                                                     .segments = segments,
                                                                     .segment_count = 4,
                                                                     .duration_ns = 40 * TT_S,
                                                                     .seed = 1});
    int64_t counts[4] = {0};
    struct tt_sim_arrival a;
    while (tt_arrivals_next(arrivals, &a))
        counts[a.at / (10 * TT_S)]++;
    assert_true(llabs(counts[0] - 10000) < 500);
    assert_int_equal(counts[1], 0);
    assert_true(llabs(counts[2] - 50000) < 1120);
    assert_true(llabs(counts[3] - 2000) < 224); /* the last one stays */
    tt_arrivals_free(arrivals);
}

static void steps_raise_the_rate(void **state) {
    (void)state;
    struct tt_arrivals_model m = model("M", 1);
    struct tt_arrivals *arrivals =
        make((struct tt_arrivals_options){.models = &m,
                                          .model_count = 1,
                                          .process = TT_PROCESS_UNIFORM,
                                          .rate = 10 * TT_RATE_ONE,
                                          .step_rate = 10 * TT_RATE_ONE,
                                          .step_every = 4,
                                          .step_maximum = 25 * TT_RATE_ONE,
                                          .duration_ns = TT_NEVER - 1,
                                          .request_limit = 12});
    const int64_t gaps_ms[] = {100, 100, 100, 50, 50, 50, 50, 40, 40, 40, 40};
    struct tt_sim_arrival a;
    int64_t at = 0;
    for (int i = 0; i < 12; i++) {
        assert_true(tt_arrivals_next(arrivals, &a));
        assert_int_equal(a.at, at);
        at += i < 11 ? gaps_ms[i] * TT_MS : 0;
    }
    assert_false(tt_arrivals_next(arrivals, &a));
    tt_arrivals_free(arrivals);
}

static void zipf_falls_as_a_power(void **state) {
    (void)state;
    int64_t weights[8];
    tt_arrivals_zipf(0, 8, weights);
    for (int i = 0; i < 8; i++)
        assert_int_equal(weights[i], INT64_C(1) << 40);
    tt_arrivals_zipf(1000000, 8, weights);
    for (int64_t i = 1; i <= 8; i++)
        assert_true(llabs(weights[i - 1] * i - (INT64_C(1) << 40)) < 1 << 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_is_exact),         cmocka_unit_test(poisson_divides_by_weight),
        cmocka_unit_test(a_stream_is_its_own),      cmocka_unit_test(kept_gaps_are_the_gaps),
        cmocka_unit_test(segments_change_the_rate), cmocka_unit_test(steps_raise_the_rate),
        cmocka_unit_test(zipf_falls_as_a_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
