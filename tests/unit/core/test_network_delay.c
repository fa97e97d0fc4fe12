/* S4: delays of messages, learnt: what is found, how fast, what moves nothing, and for which
 * executors. */
#include "base/instant.h"
#include "base/prng.h"
#include "core/network_delay.h"
#include "core/observer.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct tt_network_delay none;

static int64_t draw(struct tt_prng *prng, int64_t below) {
    return (int64_t)tt_prng_below(prng, (uint64_t)below);
}

static void a_line_is_found_exactly(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    for (int32_t world = 0; world < 1000; world++) {
        struct tt_network_delay is = {draw(&prng, 5 * TT_MS), draw(&prng, 200 * TT_US)};
        struct tt_delay_estimate estimate;
        tt_delay_estimate_init(&estimate, none, 95);
        int32_t least = 32, most = 1; /* rows in the window */
        for (int32_t i = 0; i < 64; i++) {
            int32_t rows = 1 + (int32_t)draw(&prng, 32);
            least = i >= 32 && rows < least ? rows : least;
            most = i >= 32 && rows > most ? rows : most;
            tt_delay_estimate_add(&estimate, i * TT_S, rows, tt_network_delay_of(is, rows));
            tt_delay_estimate_check(&estimate);
        }
        /* Within what moves nothing: 5 % of what is believed, or 10 us. */
        for (int32_t rows = least; rows <= most; rows++) {
            int64_t believed_ns = tt_network_delay_of(estimate.believed, rows);
            int64_t error_ns = believed_ns - tt_network_delay_of(is, rows);
            int64_t slack_ns = tt_instant_max(believed_ns / 20 + 1, 10 * TT_US);
            assert_true(error_ns <= slack_ns && error_ns >= -slack_ns);
        }
    }
}

static void it_covers_the_share_and_follows(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(2), 0);
    struct tt_delay_estimate estimate;
    tt_delay_estimate_init(&estimate, none, 95);
    int64_t covered = 0, after = 0;
    for (int32_t i = 0; i < 20000; i++) {
        /* The delay is another one after each 1000 messages. */
        struct tt_network_delay is = {(1 + i / 1000 % 3) * TT_MS, (i / 1000 % 2) * 100 * TT_US};
        int32_t rows = 1 + (int32_t)draw(&prng, 16);
        int64_t ns = tt_network_delay_of(is, rows) + draw(&prng, TT_MS / 2);
        if (i % 1000 >= 2 * TT_NETWORK_DELAY_WINDOW) {
            int64_t believed_ns = tt_network_delay_of(estimate.believed, rows);
            after++;
            covered += believed_ns >= ns;
            assert_true(believed_ns <= ns + 2 * TT_MS);
        }
        tt_delay_estimate_add(&estimate, i * TT_S, rows, ns);
    }
    assert_true(covered > after * 85 / 100);
}

static void one_stall_moves_nothing(void **state) {
    (void)state;
    struct tt_delay_estimate estimate;
    tt_delay_estimate_init(&estimate, none, 95);
    for (int32_t i = 0; i < 1000; i++) {
        int32_t rows = 1 + i % 8;
        int64_t ns = i % 40 == 39 ? TT_S : TT_MS + rows * 50 * TT_US;
        bool moved = tt_delay_estimate_add(&estimate, i * TT_S, rows, ns);
        assert_true(!moved || i < 16);
    }
    assert_int_equal(estimate.believed.control_ns, TT_MS);
    assert_int_equal(estimate.believed.data_ns, 50 * TT_US);
}

/* The share of rows is not known from batches of one size: the given one stays. */
static void one_size_leaves_the_share_of_rows(void **state) {
    (void)state;
    struct tt_delay_estimate estimate;
    tt_delay_estimate_init(&estimate, (struct tt_network_delay){0, 20 * TT_US}, 95);
    for (int32_t i = 0; i < 100; i++)
        tt_delay_estimate_add(&estimate, i * TT_S, 8, 3 * TT_MS);
    assert_int_equal(estimate.believed.data_ns, 20 * TT_US);
    assert_int_equal(estimate.believed.control_ns, 3 * TT_MS - 8 * 20 * TT_US);
}

/* A stall of all messages that are under way counts once; what overlaps with no other one counts.
 */
static void messages_under_way_together_count_once(void **state) {
    (void)state;
    struct tt_delay_estimate estimate;
    tt_delay_estimate_init(&estimate, none, 95);
    for (int32_t i = 0; i < 64; i++)
        tt_delay_estimate_add(&estimate, i * TT_S, 1, TT_MS);
    for (int32_t i = 0; i < 32; i++) /* sent during the stall, which ends for all at once */
        tt_delay_estimate_add(&estimate, 64 * TT_S + i * TT_MS, 1, (40 - i) * TT_MS);
    assert_int_equal(estimate.believed.control_ns, TT_MS);
    int32_t stalled = 0;
    for (int32_t i = 0; i < TT_NETWORK_DELAY_WINDOW; i++)
        stalled += estimate.travel_ns[i] > TT_MS;
    assert_int_equal(stalled, 1);
    /* Begins when another one ends, and the other way round. */
    tt_delay_estimate_add(&estimate, 70 * TT_S, 1, 3 * TT_MS);
    tt_delay_estimate_add(&estimate, 70 * TT_S + 3 * TT_MS, 1, 3 * TT_MS);
    tt_delay_estimate_add(&estimate, 70 * TT_S - 3 * TT_MS, 1, 3 * TT_MS);
    tt_delay_estimate_add(&estimate, 70 * TT_S + TT_MS, 1, 3 * TT_MS); /* meets two */
    stalled = 0;
    for (int32_t i = 0; i < TT_NETWORK_DELAY_WINDOW; i++)
        stalled += estimate.travel_ns[i] == 3 * TT_MS;
    assert_int_equal(stalled, 3);
    tt_delay_estimate_check(&estimate);
}

static void a_starved_one_forgets(void **state) {
    (void)state;
    const struct tt_network_delay given = {5 * TT_US, 1};
    struct tt_delay_estimate estimate;
    tt_delay_estimate_init(&estimate, given, 95);
    estimate.device = 7;
    assert_false(tt_delay_estimate_starved(&estimate));
    for (int32_t i = 0; i < 32; i++)
        tt_delay_estimate_add(&estimate, i * TT_S, 1, 100 * TT_MS);
    assert_true(tt_delay_estimate_starved(&estimate));
    assert_memory_equal(&estimate.believed, &given, sizeof(given));
    assert_int_equal(estimate.device, 7);
    for (int32_t i = 32; i < 36; i++) /* the next messages decide */
        tt_delay_estimate_add(&estimate, i * TT_S, 1, 2 * TT_MS);
    assert_int_equal(tt_network_delay_of(estimate.believed, 1), 2 * TT_MS);
}

static void a_negative_delay(void) {
    struct tt_delay_estimate estimate;
    tt_delay_estimate_init(&estimate, none, 95);
    estimate.believed.control_ns = -1;
    tt_delay_estimate_check(&estimate);
}

static void the_check_sees_a_broken_one(void **state) {
    (void)state;
    assert_breaks(a_negative_delay, "a negative delay", "control_ns >= 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_found_exactly),
        cmocka_unit_test(it_covers_the_share_and_follows),
        cmocka_unit_test(one_stall_moves_nothing),
        cmocka_unit_test(one_size_leaves_the_share_of_rows),
        cmocka_unit_test(messages_under_way_together_count_once),
        cmocka_unit_test(a_starved_one_forgets),
        cmocka_unit_test(the_check_sees_a_broken_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
