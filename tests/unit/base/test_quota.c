/* threaded */
/* What threads share never exceeds its limit, is all usable while it is small, and comes back
 * whole.
 */
#include "base/threads/quota.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_limit(void **state) {
    (void)state;
    struct tt_quota quota;
    tt_quota_init(&quota, 10);
    assert_true(tt_quota_take(&quota, 10));
    assert_false(tt_quota_take(&quota, 1));
    assert_true(tt_quota_take(&quota, 0));
    tt_quota_give(&quota, 4);
    assert_false(tt_quota_take(&quota, INT64_MAX));
    assert_true(tt_quota_take(&quota, 4));
    assert_int_equal(tt_quota_used(&quota), 10);
    tt_quota_give(&quota, 10);
    assert_int_equal(tt_quota_used(&quota), 0);
    tt_quota_init(&quota, 0);
    assert_false(tt_quota_take(&quota, 1));
}

/* A small limit is exact: what one share gives the other can take. */
static void test_small_shares(void **state) {
    (void)state;
    struct tt_quota quota;
    struct tt_quota_share a, b;
    tt_quota_init(&quota, 3);
    tt_quota_share_init(&a, &quota);
    tt_quota_share_init(&b, &quota);
    for (int round = 0; round < 3; round++) {
        assert_true(tt_quota_share_take(&a, 2));
        assert_true(tt_quota_share_take(&b, 1));
        assert_false(tt_quota_share_take(&a, 1));
        assert_false(tt_quota_share_take(&b, 1));
        tt_quota_share_give(&a, 1);
        assert_false(tt_quota_share_take(&b, 2));
        assert_true(tt_quota_share_take(&b, 1));
        assert_int_equal(a.used, 1);
        assert_int_equal(b.used, 2);
        assert_int_equal(tt_quota_used(&quota), 3);
        tt_quota_share_give(&b, 2);
        tt_quota_share_give(&a, 1);
        assert_int_equal(tt_quota_used(&quota), 0);
    }
    tt_quota_share_fini(&a);
    tt_quota_share_fini(&b);
}

/* A large limit is taken in pieces; a share gets the last of it, however little it is. */
static void test_large_shares(void **state) {
    (void)state;
    enum { LIMIT = 100 * TT_QUOTA_PIECES };
    struct tt_quota quota;
    struct tt_quota_share a, b;
    tt_quota_init(&quota, LIMIT);
    tt_quota_share_init(&a, &quota);
    tt_quota_share_init(&b, &quota);
    assert_true(tt_quota_share_take(&a, 1));
    int64_t piece = tt_quota_used(&quota);
    assert_int_equal(piece, 100);
    for (int i = 1; i < piece; i++)
        assert_true(tt_quota_share_take(&a, 1));
    assert_int_equal(tt_quota_used(&quota), piece); /* the quota is asked once per piece */
    for (int i = 0; i < 2 * piece; i++)
        assert_true(tt_quota_share_take(&a, 1));
    assert_int_equal(a.held, 3 * piece);
    assert_false(tt_quota_share_take(&b, LIMIT));
    assert_true(tt_quota_share_take(&b, LIMIT - 3 * piece));
    assert_false(tt_quota_share_take(&b, 1));
    tt_quota_share_give(&a, 3 * piece);
    int64_t back = LIMIT - tt_quota_used(&quota);
    assert_in_range(back, 2 * piece, 3 * piece - 1);
    assert_false(tt_quota_share_take(&b, 3 * piece));
    assert_true(tt_quota_share_take(&b, back));
    tt_quota_share_give(&b, LIMIT - 3 * piece + back);
    tt_quota_share_fini(&a);
    tt_quota_share_fini(&b);
    assert_int_equal(tt_quota_used(&quota), 0);
}

enum { THREADS = 3, ROUNDS = 20000 };

struct shared {
    struct tt_quota quota;
    _Atomic int64_t in_use; /* counted apart from the quota */
    _Atomic int64_t refused;
    _Atomic uint64_t started; /* threads */
    uint64_t seed;
};

static void *take_and_give(void *context) {
    struct shared *shared = context;
    struct tt_quota_share share;
    struct tt_prng prng;
    tt_prng_init(&prng, shared->seed, atomic_fetch_add(&shared->started, 1));
    tt_quota_share_init(&share, &shared->quota);
    int64_t mine = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t amount = (int64_t)(tt_prng_next(&prng) % (uint64_t)(shared->quota.limit + 1));
        if (tt_prng_next(&prng) & 1) {
            if (!tt_quota_share_take(&share, amount)) {
                atomic_fetch_add(&shared->refused, 1);
                continue;
            }
            mine += amount;
            int64_t sum = atomic_fetch_add(&shared->in_use, amount) + amount;
            tt_assert(sum <= shared->quota.limit);
        } else {
            amount = amount < mine ? amount : mine;
            mine -= amount;
            atomic_fetch_sub(&shared->in_use, amount); /* before it is given: others may take it */
            tt_quota_share_give(&share, amount);
        }
        tt_assert(share.used == mine);
    }
    atomic_fetch_sub(&shared->in_use, mine);
    tt_quota_share_give(&share, mine);
    tt_quota_share_fini(&share);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    static const int64_t limits[] = {1, 7, 5000, 1000000};
    uint64_t seed = test_seed(1);
    for (size_t i = 0; i < TT_COUNT(limits); i++) {
        struct shared shared = {.seed = seed};
        tt_quota_init(&shared.quota, limits[i]);
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, take_and_give, &shared), 0);
        for (int t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
        assert_int_equal(tt_quota_used(&shared.quota), 0);
        assert_int_equal(shared.in_use, 0);
        assert_true(shared.refused > 0); /* else nothing was shared */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_small_shares),
        cmocka_unit_test(test_large_shares),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
