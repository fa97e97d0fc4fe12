/* The generator against known answers: the reference sequences of splitmix64 and xoshiro256**, and
 * ours (seed, stream) worked out by a separate program; then that it looks uniform. */
#include "base/prng.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static void splitmix_is_the_reference(void **state) {
    (void)state;
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
        UINT64_C(4593380528125082431), UINT64_C(16408922859458223821)};
    uint64_t seed = 1234567;
    for (size_t i = 0; i < TT_COUNT(expected); i++)
        assert_true(tt_prng_mix(&seed) == expected[i]);
}

static void xoshiro_is_the_reference(void **state) {
    (void)state;
    static const uint64_t expected[] = {UINT64_C(11520),
                                        UINT64_C(0),
                                        UINT64_C(1509978240),
                                        UINT64_C(1215971899390074240),
                                        UINT64_C(1216172134540287360),
                                        UINT64_C(607988272756665600),
                                        UINT64_C(16172922978634559625),
                                        UINT64_C(8476171486693032832),
                                        UINT64_C(10595114339597558777),
                                        UINT64_C(2904607092377533576)};
    struct tt_prng prng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < TT_COUNT(expected); i++)
        assert_true(tt_prng_next(&prng) == expected[i]);
}

static void seeds_and_streams_are_pinned(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, stream, first[4], thousandth;
    } known[] = {
        {0,
         0,
         {0xfb5405f7bd79c540, 0x780c98e26cea5883, 0x2a146e0980febc66, 0x4851477db8791fca},
         0xb45488f563280343},
        {1,
         0,
         {0xee127fe613436e33, 0xd6dad8d34a1874ea, 0x2a52c16cec1116a9, 0x9af9091d9f77d551},
         0x78ec6cabb6a814a6},
        {1,
         1,
         {0x550e4e55a37114cc, 0xa645791d18940fdd, 0xebededf9628ebf4c, 0xc37d4b2c2c66d216},
         0x50e502937d4663df},
        {UINT64_MAX,
         12345678901,
         {0x1b17132eea5c37a7, 0xc959654e2abfee18, 0xc766910d301fdd0e, 0xfae40caf70ecd885},
         0xca1ef29390597726},
    };
    for (size_t i = 0; i < TT_COUNT(known); i++) {
        struct tt_prng prng;
        tt_prng_init(&prng, known[i].seed, known[i].stream);
        for (int k = 0; k < 4; k++)
            assert_true(tt_prng_next(&prng) == known[i].first[k]);
        for (int k = 4; k < 999; k++)
            tt_prng_next(&prng);
        assert_true(tt_prng_next(&prng) == known[i].thousandth);
    }
    static const uint64_t below_1000[] = {910, 237, 8, 494, 517, 898, 704, 951};
    struct tt_prng prng;
    tt_prng_init(&prng, 7, 3);
    for (size_t i = 0; i < TT_COUNT(below_1000); i++)
        assert_int_equal(tt_prng_below(&prng, 1000), below_1000[i]);
}

/* Chi-square of `counts` that should all be `mean`. */
static double chi_square(const int *counts, int cells, double mean) {
    double sum = 0;
    for (int i = 0; i < cells; i++)
        sum += ((double)counts[i] - mean) * ((double)counts[i] - mean) / mean;
    return sum;
}

/* The seed is fixed, so this passes always or never. 99.99 % of uniform draws stay under 160 with
 * 99 degrees of freedom. */
static void draws_below_a_bound_are_uniform(void **state) {
    (void)state;
    enum { CELLS = 100, DRAWS = 1000000 };
    for (uint64_t stream = 0; stream < 4; stream++) {
        struct tt_prng prng;
        tt_prng_init(&prng, 42, stream);
        int counts[CELLS] = {0};
        for (int i = 0; i < DRAWS; i++) {
            uint64_t draw = tt_prng_below(&prng, CELLS);
            assert_true(draw < CELLS);
            counts[draw]++;
        }
        double chi = chi_square(counts, CELLS, (double)DRAWS / CELLS);
        if (chi > 160 || chi < 50)
            fail_msg("seed 42 stream %d: chi-square %f", (int)stream, chi);
    }
}

static void bounds_hold_at_the_edges(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, 3, 0);
    bool high = false;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(tt_prng_below(&prng, 1), 0);
        assert_true(tt_prng_below(&prng, UINT64_MAX) < UINT64_MAX);
        high |= tt_prng_below(&prng, UINT64_MAX) > UINT64_MAX / 2;
    }
    assert_true(high);
}

/* Pairs of draws from neighbouring streams, and from neighbouring seeds, fill a 10 x 10 board
 * evenly: the two are independent. */
static void neighbours_are_independent(void **state) {
    (void)state;
    enum { SIDE = 10, DRAWS = 200000 };
    static const uint64_t other[][2] = {{9, 1}, {10, 0}, {9, 1u << 20}};
    for (size_t k = 0; k < TT_COUNT(other); k++) {
        struct tt_prng a, b;
        tt_prng_init(&a, 9, 0);
        tt_prng_init(&b, other[k][0], other[k][1]);
        int counts[SIDE * SIDE] = {0}, equal = 0;
        for (int i = 0; i < DRAWS; i++) {
            uint64_t x = tt_prng_next(&a), y = tt_prng_next(&b);
            equal += x == y;
            counts[(x >> 32) * SIDE / (1ull << 32) * SIDE + (y >> 32) * SIDE / (1ull << 32)]++;
        }
        assert_int_equal(equal, 0);
        double chi = chi_square(counts, SIDE * SIDE, (double)DRAWS / (SIDE * SIDE));
        if (chi > 160)
            fail_msg("seed 9 against seed %d stream %d: chi-square %f", (int)other[k][0],
                     (int)other[k][1], chi);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitmix_is_the_reference),
        cmocka_unit_test(xoshiro_is_the_reference),
        cmocka_unit_test(seeds_and_streams_are_pinned),
        cmocka_unit_test(draws_below_a_bound_are_uniform),
        cmocka_unit_test(bounds_hold_at_the_edges),
        cmocka_unit_test(neighbours_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
