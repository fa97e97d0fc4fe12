/* L3: what is learnt of the lengths of outputs. */
#include "core/output_lengths.h"

#include "base/prng.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void even(int32_t quantiles[TT_QUANTILES], int32_t value) {
    for (int32_t p = 0; p < TT_QUANTILES; p++)
        quantiles[p] = value;
}

/* Every length has a bucket, in order, whose largest length is at most 12.5 % above. */
static void test_buckets(void **state) {
    (void)state;
    int32_t before = -1;
    for (int32_t length = 1; length < 1 << 18; length++) {
        int32_t bucket = tt_output_lengths_bucket(length);
        assert_true(bucket == before || bucket == before + 1);
        before = bucket;
        int32_t largest = tt_output_lengths_largest(bucket);
        assert_true(largest >= length);
        assert_true(8 * (int64_t)largest <= 9 * (int64_t)length);
        assert_int_equal(tt_output_lengths_bucket(largest), bucket);
        assert_int_equal(tt_output_lengths_bucket(largest + 1), bucket + 1);
    }
    for (int32_t length = 1; length <= TT_OUTPUT_EXACT; length++)
        assert_int_equal(tt_output_lengths_largest(tt_output_lengths_bucket(length)), length);
    assert_int_equal(tt_output_lengths_bucket(INT32_MAX),
                     tt_output_lengths_bucket(TT_OUTPUT_MAX_LENGTH));
    assert_int_equal(tt_output_lengths_bucket(INT32_MAX), TT_OUTPUT_LENGTH_BUCKETS - 1);
}

/* It begins with what the model says, and believes what it sees from the 32nd output on. */
static void test_beginning(void **state) {
    (void)state;
    struct tt_output_lengths lengths;
    int32_t prior[TT_QUANTILES];
    even(prior, 200);
    tt_output_lengths_init(&lengths, prior);
    for (int32_t i = 1; i < TT_OUTPUT_PAUSE; i++) {
        assert_false(tt_output_lengths_add(&lengths, 7));
        assert_int_equal(lengths.quantiles[90], 200);
    }
    assert_true(tt_output_lengths_add(&lengths, 12));
    tt_output_lengths_check(&lengths);
    assert_int_equal(lengths.quantiles[0], 7);
    assert_int_equal(lengths.quantiles[50], 7);
    assert_int_equal(lengths.quantiles[96], 7);
    assert_int_equal(lengths.quantiles[97], 12); /* 31 of 32 are 96.9 % */
    assert_int_equal(lengths.quantiles[100], 12);
    assert_int_equal(lengths.moves, 1);
    /* The same again is no move; an output of no element counts as one. */
    for (int32_t i = 0; i < 10 * TT_OUTPUT_PAUSE; i++)
        assert_false(tt_output_lengths_add(&lengths, 7));
    for (int32_t i = 0; i < 4 * TT_OUTPUT_MEMORY; i++)
        tt_output_lengths_add(&lengths, 0);
    assert_int_equal(lengths.quantiles[90], 1);
    tt_output_lengths_check(&lengths);
}

/* A prior that is true is never left. */
static void test_a_true_prior_stays(void **state) {
    (void)state;
    struct tt_output_lengths lengths;
    int32_t prior[TT_QUANTILES];
    even(prior, 16);
    tt_output_lengths_init(&lengths, prior);
    for (int32_t i = 0; i < 100000; i++)
        assert_false(tt_output_lengths_add(&lengths, 16));
    assert_int_equal(lengths.moves, 0);
}

/* Quantiles of a uniform distribution: within a bucket and the noise of 256 .. 512 outputs. */
static void test_quantiles(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(20261123), 0);
    struct tt_output_lengths lengths;
    int32_t prior[TT_QUANTILES];
    even(prior, 1);
    tt_output_lengths_init(&lengths, prior);
    for (int32_t i = 0; i < 20000; i++) {
        tt_output_lengths_add(&lengths, 101 + (int32_t)tt_prng_below(&prng, 1000));
        tt_output_lengths_check(&lengths);
        if (i < 1000)
            continue;
        for (int32_t p = 10; p <= 90; p += 20) {
            /* six standard deviations of a share among 256 are 0.19; then 5 % and a bucket */
            int64_t low = 101 + 10 * (p - 19), high = 101 + 10 * (p + 19);
            assert_true(lengths.quantiles[p] * 105 / 100 >= low);
            assert_true(lengths.quantiles[p] <= high * 105 / 100 * 9 / 8 + 1);
        }
    }
}

/* When lengths change, the median follows within 512 outputs and the longest are forgotten: the
 * counts of 512 outputs are nothing after sixteen halvings. */
static void test_forgetting(void **state) {
    (void)state;
    struct tt_output_lengths lengths;
    int32_t prior[TT_QUANTILES];
    even(prior, 1);
    tt_output_lengths_init(&lengths, prior);
    for (int32_t i = 0; i < 5000; i++)
        tt_output_lengths_add(&lengths, 1000);
    assert_int_equal(lengths.quantiles[50], 1024);
    for (int32_t i = 0; i < 512; i++)
        tt_output_lengths_add(&lengths, 10);
    assert_int_equal(lengths.quantiles[50], 10);
    for (int32_t i = 0; i < 16 * 256; i++)
        tt_output_lengths_add(&lengths, 10);
    assert_int_equal(lengths.counts[tt_output_lengths_bucket(1000)], 0);
    assert_int_equal(lengths.quantiles[90], 10);
}

static void break_a_count(void) {
    struct tt_output_lengths lengths;
    int32_t prior[TT_QUANTILES];
    even(prior, 1);
    tt_output_lengths_init(&lengths, prior);
    tt_output_lengths_add(&lengths, 5);
    lengths.counts[4]++;
    tt_output_lengths_check(&lengths);
}

static void break_a_quantile(void) {
    struct tt_output_lengths lengths;
    int32_t prior[TT_QUANTILES];
    even(prior, 5);
    tt_output_lengths_init(&lengths, prior);
    lengths.quantiles[40] = 4;
    tt_output_lengths_check(&lengths);
}

static void test_the_check_sees_damage(void **state) {
    (void)state;
    char said[512];
    assert_true(WIFSIGNALED(in_a_child(break_a_count, said, sizeof(said))));
    assert_non_null(strstr(said, "sum == self->total"));
    assert_true(WIFSIGNALED(in_a_child(break_a_quantile, said, sizeof(said))));
    assert_non_null(strstr(said, "quantiles[p]"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_beginning),
        cmocka_unit_test(test_a_true_prior_stays),
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_forgetting),
        cmocka_unit_test(test_the_check_sees_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
