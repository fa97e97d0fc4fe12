#include "net/sockets/busy_poll.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define WAKES_NS (25 * TT_US) /* until a thread that slept runs */

/* A thread in virtual time: its waits, and what they cost. */
struct thread {
    struct tt_busy_poll poll;
    int64_t now;
    int64_t watched_ns;
    int64_t waits, watched, found;
};

static struct thread thread_of(int64_t limit_ns) {
    struct thread self = {.now = TT_S};
    tt_busy_poll_init(&self.poll, limit_ns);
    return self;
}

/* Something comes after `gap_ns`. True: the thread was watching when it came. */
static bool wait_for(struct thread *self, int64_t gap_ns, bool has_requests) {
    int64_t for_ns = tt_busy_poll_before(&self->poll, self->now, has_requests);
    bool is_found = gap_ns < for_ns;
    self->waits++;
    self->watched += for_ns > 0;
    self->found += is_found;
    self->watched_ns += is_found ? gap_ns : for_ns;
    if (for_ns > 0 && !is_found)
        tt_busy_poll_in_vain(&self->poll);
    self->now += is_found ? gap_ns : gap_ns + WAKES_NS;
    tt_busy_poll_after(&self->poll, self->now);
    return is_found;
}

static bool waits(struct thread *self, int64_t gap_ns) { return wait_for(self, gap_ns, false); }

static void test_never(void **state) {
    (void)state;
    struct thread thread = thread_of(0);
    for (int i = 0; i < 100; i++)
        assert_false(waits(&thread, 0));
    assert_int_equal(thread.watched, 0);
}

/* After a short wait it watches, after a long one not. */
static void test_fixed(void **state) {
    (void)state;
    struct thread thread = thread_of(40 * TT_US);
    assert_false(waits(&thread, 56 * TT_US)); /* 81 with the time to wake up */
    assert_false(waits(&thread, 55 * TT_US));
    assert_true(waits(&thread, 39 * TT_US));
    assert_false(waits(&thread, 50 * TT_US));
    assert_int_equal(thread.watched, 2);
    assert_false(waits(&thread, TT_S)); /* in vain, and then no more */
    assert_false(waits(&thread, 0));
    assert_int_equal(thread.watched, 3);
    assert_true(wait_for(&thread, 0, true)); /* also for runs */
}

/* One client: as many short waits as it remembers may have, and it watches; until it leaves. */
static void test_one_client(void **state) {
    (void)state;
    struct thread thread = thread_of(-1);
    int turned_on = TT_BUSY_POLL_WAITS - TT_BUSY_POLL_LONG;
    for (int i = 0; i < turned_on; i++)
        assert_false(waits(&thread, 30 * TT_US));
    for (int i = 0; i < 10000; i++)
        assert_true(waits(&thread, 30 * TT_US));
    for (int i = 0; i < 100; i++)
        assert_false(waits(&thread, TT_S));
    assert_int_equal(thread.watched, 10000 + TT_BUSY_POLL_LONG + 1);
    assert_false(waits(&thread, 0));
    assert_int_equal(thread.watched, 10000 + TT_BUSY_POLL_LONG + 1);
    for (int i = 1; i < turned_on; i++)
        assert_false(waits(&thread, 30 * TT_US));
    assert_true(waits(&thread, 30 * TT_US)); /* it is back, and the pause is over */
}

/* Four long waits of 32 do not matter, five do. */
static void test_long_waits_among_short_ones(void **state) {
    (void)state;
    for (int longs = TT_BUSY_POLL_LONG; longs <= TT_BUSY_POLL_LONG + 1; longs++) {
        struct thread thread = thread_of(-1);
        for (int i = 0; i < TT_BUSY_POLL_WAITS; i++)
            (void)waits(&thread, 30 * TT_US);
        for (int i = 0; i < 3200; i++)
            (void)waits(&thread, i % TT_BUSY_POLL_WAITS < longs ? TT_MS : 30 * TT_US);
        if (longs == TT_BUSY_POLL_LONG)
            assert_int_equal(thread.found, 3200 / 32 * 28 + 4);
        else
            assert_int_equal(thread.found, 4);
    }
}

/* While a run is awaited it sleeps, and what it learnt stays. */
static void test_runs(void **state) {
    (void)state;
    struct thread thread = thread_of(-1);
    for (int i = 0; i < 2 * TT_BUSY_POLL_WAITS; i++)
        (void)wait_for(&thread, 30 * TT_US, true);
    assert_int_equal(thread.watched, 0);
    assert_false(waits(&thread, 30 * TT_US)); /* those waits did not turn it on */
    for (int i = 0; i < TT_BUSY_POLL_WAITS; i++)
        (void)waits(&thread, 30 * TT_US);
    for (int i = 0; i < 1000; i++) {
        assert_false(wait_for(&thread, TT_MS, true));
        assert_true(waits(&thread, 30 * TT_US));
    }
}

/* An idle server's timers: no watching at all. */
static void test_idle(void **state) {
    (void)state;
    struct thread thread = thread_of(-1);
    for (int i = 0; i < 100000; i++)
        (void)waits(&thread, TT_S);
    assert_int_equal(thread.watched, 0);
}

/* Pauses double while watching does not last, and begin anew when it has. */
static void test_pauses(void **state) {
    (void)state;
    struct thread thread = thread_of(-1);
    int64_t expected = 0;
    for (int round = 0; round < 12; round++) {
        int64_t slept = 0;
        while (!thread.poll.is_on) {
            assert_false(waits(&thread, 60 * TT_US));
            slept++;
        }
        int64_t pause = expected ? expected : TT_BUSY_POLL_WAITS - TT_BUSY_POLL_LONG;
        assert_int_equal(slept, pause);
        for (int i = 0; i <= TT_BUSY_POLL_LONG; i++)
            assert_false(waits(&thread, TT_MS));
        assert_false(thread.poll.is_on);
        expected = expected ? 2 * expected : TT_BUSY_POLL_PAUSE;
        expected = expected < TT_BUSY_POLL_MAX_PAUSE ? expected : TT_BUSY_POLL_MAX_PAUSE;
    }
    while (!thread.poll.is_on)
        (void)waits(&thread, 60 * TT_US);
    for (int i = 0; i < TT_BUSY_POLL_LASTED; i++)
        assert_true(waits(&thread, 30 * TT_US));
    for (int i = 0; i <= TT_BUSY_POLL_LONG; i++)
        (void)waits(&thread, TT_MS);
    assert_int_equal(thread.poll.pause, TT_BUSY_POLL_PAUSE);
}

/* One client where wake-ups take long: its waits are longer, but even. */
static void test_even_waits(void **state) {
    (void)state;
    struct thread thread = thread_of(-1);
    for (int i = 0; i < TT_BUSY_POLL_WAITS - TT_BUSY_POLL_LONG; i++)
        assert_false(waits(&thread, 150 * TT_US));
    for (int i = 0; i < 10000; i++)
        assert_true(waits(&thread, (i % 2 ? 100 : 150) * TT_US));
    for (int i = 0; i <= TT_BUSY_POLL_LONG; i++) /* they become uneven: it sleeps */
        assert_true(waits(&thread, 20 * TT_US));
    assert_false(thread.poll.is_on);
    struct thread slow = thread_of(-1);
    for (int i = 0; i < 10000; i++)
        (void)waits(&slow, 450 * TT_US);
    assert_int_equal(slow.watched, 0);
}

/* The time to the next of requests that come at random, `mean_ns` apart, after a turn of 10 us. */
static int64_t random_gap(struct tt_prng *prng, double mean_ns) {
    double gap = -log1p(-(double)(tt_prng_next(prng) >> 11) * 0x1p-53) * mean_ns - 10e3;
    return gap > 0 ? (int64_t)gap : 0;
}

/* Requests at random times: watching takes less than 1 % of the time. */
static void test_random_arrivals(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(23), 0);
    static const double rates[] = {1000, 3000, 10000, 20000, 30000};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct thread thread = thread_of(-1);
        for (int n = 0; n < 200000; n++)
            (void)waits(&thread, random_gap(&prng, 1e9 / rates[i]));
        print_message("%.0f/s: %.4f of the waits watched, %.1f ns per wait\n", rates[i],
                      (double)thread.watched / (double)thread.waits,
                      (double)thread.watched_ns / (double)thread.waits);
        assert_true(100 * thread.watched_ns < thread.now - TT_S);
    }
}

/* One client whose waits are disturbed now and then is found, and watched for nearly always. */
static void test_disturbed_client(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(24), 0);
    struct thread thread = thread_of(-1);
    for (int n = 0; n < 200000; n++)
        (void)waits(&thread, tt_prng_below(&prng, 100) < 5
                                 ? TT_MS
                                 : 20 * TT_US + (int64_t)tt_prng_below(&prng, 20000));
    print_message("%.4f of the waits watched\n", (double)thread.watched / (double)thread.waits);
    assert_true(thread.watched * 10 > thread.waits * 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_one_client),
        cmocka_unit_test(test_long_waits_among_short_ones),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_even_waits),
        cmocka_unit_test(test_random_arrivals),
        cmocka_unit_test(test_disturbed_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
