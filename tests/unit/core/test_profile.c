#include "core/profile.h"

#include "base/prng.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <stdbool.h>

static void tables_follow_their_points(void **state) {
    (void)state;
    const struct tt_profile_point points[] = {
        {.batch = 4, .latency_ns = 40},
        {.batch = 1, .latency_ns = 10},
        {.batch = 6, .latency_ns = 30},
        {.batch = 8, .latency_ns = 50, .demand_ppm = 500000},
    };
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_points(points, 4, 10, &profile, NULL), TT_OK);
    static const int64_t wanted[] = {0, 10, 20, 30, 40, 40, 40, 40, 50, 60, 70};
    for (int32_t b = 0; b <= 10; b++)
        assert_int_equal(tt_profile_latency(profile, b, 0), wanted[b]);
    assert_int_equal(profile->demand_ppm[6], TT_DEMAND_WHOLE);
    assert_int_equal(profile->demand_ppm[8], 500000);
    tt_profile_free(profile);
}

static void lengths_choose_the_row_that_holds_them(void **state) {
    (void)state;
    const struct tt_profile_point points[] = {
        {.length = 16, .batch = 1, .latency_ns = 10, .demand_ppm = 250000},
        {.length = 64, .batch = 1, .latency_ns = 40, .demand_ppm = 750000}};
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_points(points, 2, 4, &profile, NULL), TT_OK);
    assert_int_equal(tt_profile_latency(profile, 1, 16), 10);
    assert_int_equal(tt_profile_latency(profile, 1, 17), 40);
    assert_int_equal(tt_profile_latency(profile, 1, 1000), 40);
    assert_int_equal(tt_profile_latency(profile, 4, 1), 10);
    assert_int_equal(tt_profile_demand(profile, 1, 16), 250000);
    assert_int_equal(tt_profile_demand(profile, 4, 17), 750000);
    tt_profile_free(profile);
}

/* Own rows stay, and those between lie on the line, no further apart than a sixteenth. */
static void check_between(const struct tt_profile *own, const struct tt_profile *dense) {
    int32_t found = 0;
    for (int32_t row = 0; row < dense->length_count; row++) {
        int32_t length = dense->lengths[row], right = tt_profile_length_index(own, length);
        bool is_own = own->lengths[right] == length;
        int32_t left = is_own ? right : right - 1;
        found += is_own;
        assert_true(left >= 0);
        if (row > 0)
            assert_true(length - dense->lengths[row - 1] <=
                        (dense->lengths[row - 1] < 16 ? 1 : dense->lengths[row - 1] / 16));
        for (int32_t b = 1; b <= own->max_batch; b++) {
            double low = (double)tt_profile_latency(own, b, own->lengths[left]);
            double high = (double)tt_profile_latency(own, b, own->lengths[right]);
            double part = is_own ? 0
                                 : (double)(length - own->lengths[left]) /
                                       (double)(own->lengths[right] - own->lengths[left]);
            double wanted = low + part * (high - low);
            double off = (double)tt_profile_latency(dense, b, length) - wanted;
            assert_true(is_own ? off == 0 : off > -2 && off < 2);
            low = tt_profile_demand(own, b, own->lengths[left]);
            high = tt_profile_demand(own, b, own->lengths[right]);
            off = (double)tt_profile_demand(dense, b, length) - low - part * (high - low);
            assert_true(is_own ? off == 0 : off > -2 && off < 2);
        }
    }
    assert_int_equal(found, own->length_count);
}

static void lengths_between_lie_on_the_line(void **state) {
    (void)state;
    enum { BATCHES = 5, MOST_LENGTHS = 6 };
    struct tt_prng prng;
    for (uint64_t seed = test_seed(1), end = seed + 200; seed < end; seed++) {
        tt_prng_init(&prng, seed, 0);
        struct tt_profile_point points[BATCHES * MOST_LENGTHS];
        int32_t count = 0, lengths = 1 + (int32_t)tt_prng_below(&prng, MOST_LENGTHS);
        int32_t length = (int32_t)tt_prng_below(&prng, 3);
        for (int32_t l = 0; l < lengths; l++) {
            int64_t ns = 1;
            for (int32_t b = 1; b <= BATCHES; b++) {
                ns += (int64_t)tt_prng_below(&prng, 1000000);
                points[count++] = (struct tt_profile_point){
                    .length = length,
                    .batch = b,
                    .latency_ns = ns,
                    .demand_ppm = 1 + (int32_t)tt_prng_below(&prng, TT_DEMAND_WHOLE)};
            }
            length += 1 + (int32_t)tt_prng_below(&prng, 300);
        }
        struct tt_profile *own, *dense;
        assert_int_equal(tt_profile_new_points(points, count, BATCHES, &own, NULL), TT_OK);
        assert_int_equal(tt_profile_new_between(own, &dense, NULL), TT_OK);
        tt_profile_check(dense);
        check_between(own, dense);
        assert_true(dense->alpha_ns == own->alpha_ns && dense->beta_ns == own->beta_ns);
        tt_profile_free(dense);
        tt_profile_free(own);
    }
}

static void the_longest_lengths_have_few_rows(void **state) {
    (void)state;
    const struct tt_profile_point points[] = {
        {.length = 1, .batch = 1, .latency_ns = 1000},
        {.length = INT32_MAX, .batch = 1, .latency_ns = INT64_C(1000000000000)}};
    struct tt_profile *own, *dense;
    assert_int_equal(tt_profile_new_points(points, 2, 1, &own, NULL), TT_OK);
    assert_int_equal(tt_profile_new_between(own, &dense, NULL), TT_OK);
    tt_profile_check(dense);
    check_between(own, dense);
    assert_true(dense->length_count < 400); /* 16 and 12 or fewer for each doubling */
    tt_profile_free(dense);
    tt_profile_free(own);
}

static void a_steep_end_does_not_overflow(void **state) {
    (void)state;
    const struct tt_profile_point points[] = {{.batch = 1, .latency_ns = 1},
                                              {.batch = 2, .latency_ns = INT64_MAX / 8}};
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_points(points, 2, 4096, &profile, NULL), TT_OK);
    for (int32_t b = 1; b <= 4096; b++)
        assert_true(profile->latency_ns[b] >= profile->latency_ns[b - 1]);
    tt_profile_free(profile);
}

static void the_largest_batch_is_found(void **state) {
    (void)state;
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_linear(3, 7, 50, &profile, NULL), TT_OK);
    for (int64_t budget = 0; budget < 200; budget++)
        for (int32_t limit = 0; limit <= 60; limit++) {
            int32_t wanted = 0;
            for (int32_t b = 1; b <= limit && b <= 50; b++)
                wanted = 3 * b + 7 <= budget ? b : wanted;
            assert_int_equal(tt_profile_largest_batch(profile, budget, 0, limit), wanted);
        }
    tt_profile_free(profile);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    struct tt_profile *profile = NULL;
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(0, 0, 4, &profile, &why), TT_ERR_INVALID);
    assert_int_equal(tt_profile_new_linear(-1, 5, 4, &profile, &why), TT_ERR_INVALID);
    assert_int_equal(tt_profile_new_linear(1, 5, 0, &profile, &why), TT_ERR_INVALID);
    const struct tt_profile_point twice[] = {{.batch = 1, .latency_ns = 1},
                                             {.batch = 1, .latency_ns = 2}};
    const struct tt_profile_point late = {.batch = 2, .latency_ns = 1};
    assert_int_equal(tt_profile_new_points(twice, 2, 4, &profile, &why), TT_ERR_INVALID);
    assert_int_equal(tt_profile_new_points(&late, 1, 4, &profile, &why), TT_ERR_INVALID);
    assert_int_equal(tt_profile_new_points(&late, 0, 4, &profile, &why), TT_ERR_INVALID);
    assert_null(profile);
}

/* ---- broken profiles ---- */

/* What several tasks of as many rows take, whose rows share batches of at most eight. */
static void tasks_that_share_a_device(void **state) {
    (void)state;
    struct tt_profile *alone, *shared;
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(10, 100, 8, &alone, &why), TT_OK);
    assert_int_equal(tt_profile_new_shared(alone, 3, &shared, &why), TT_OK);
    tt_profile_check(shared);
    assert_int_equal(tt_profile_latency(shared, 1, 0), 130);
    assert_int_equal(tt_profile_latency(shared, 2, 0), 160);
    assert_int_equal(tt_profile_latency(shared, 3, 0), 180 + 110); /* nine rows */
    assert_int_equal(tt_profile_latency(shared, 8, 0), 3 * 180);   /* three whole batches */
    assert_int_equal(tt_profile_tail(shared, 8, 0), 3 * 180);
    tt_profile_free(shared);
    assert_int_equal(tt_profile_new_shared(alone, 1, &shared, &why), TT_OK);
    for (int32_t b = 1; b <= 8; b++)
        assert_int_equal(tt_profile_latency(shared, b, 0), tt_profile_latency(alone, b, 0));
    tt_profile_free(shared);
    tt_profile_free(alone);
}

static struct tt_profile *sound(void) {
    static const struct tt_profile_point points[] = {{.length = 1, .batch = 1, .latency_ns = 5},
                                                     {.length = 1, .batch = 3, .latency_ns = 9},
                                                     {.length = 8, .batch = 1, .latency_ns = 7}};
    struct tt_profile *profile = NULL;
    struct tt_error why;
    if (tt_profile_new_points(points, 3, 4, &profile, &why) != TT_OK)
        _exit(3);
    return profile;
}
static void nothing_wrong(void) { tt_profile_check(sound()); }
static void lengths_out_of_order(void) {
    struct tt_profile *profile = sound();
    profile->lengths[1] = profile->lengths[0];
    tt_profile_check(profile);
}
static void a_dip(void) {
    struct tt_profile *profile = sound();
    profile->latency_ns[3] = profile->latency_ns[2] - 1;
    tt_profile_check(profile);
}
static void an_instant_batch(void) {
    struct tt_profile *profile = sound();
    profile->latency_ns[5 + 1] = 0; /* the second length's first batch */
    tt_profile_check(profile);
}
static void a_tail_below_the_centre(void) {
    struct tt_profile *profile = sound();
    int64_t tail[2 * 5] = {0};
    profile->tail_ns = tail;
    tt_profile_check(profile);
}
static void more_than_the_device(void) {
    struct tt_profile *profile = sound();
    profile->demand_ppm[2] = TT_DEMAND_WHOLE + 1;
    tt_profile_check(profile);
}

static void broken_profiles_are_caught(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(lengths_out_of_order, "self->lengths[row] > self->lengths[row - 1]"),
        BREACH(a_dip, "self->latency_ns[i] >= self->latency_ns[i - 1]"),
        BREACH(an_instant_batch, "self->latency_ns[first + 1] > 0"),
        BREACH(a_tail_below_the_centre, "self->tail_ns[i] >= self->latency_ns[i]"),
        BREACH(more_than_the_device, "self->demand_ppm[i] <= TT_DEMAND_WHOLE"),
    };
    assert_holds(nothing_wrong);
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_follow_their_points),
        cmocka_unit_test(lengths_choose_the_row_that_holds_them),
        cmocka_unit_test(lengths_between_lie_on_the_line),
        cmocka_unit_test(the_longest_lengths_have_few_rows),
        cmocka_unit_test(a_steep_end_does_not_overflow),
        cmocka_unit_test(the_largest_batch_is_found),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(tasks_that_share_a_device),
        cmocka_unit_test(broken_profiles_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
