#include "base/threads/recent.h"

#include "base/threads/flag.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_last_are_kept(void **state) {
    (void)state;
    struct tt_recent recent;
    uint64_t record[2];
    assert_int_equal(tt_recent_init(&recent, 3, 2), TT_OK); /* 4 */
    assert_int_equal(tt_recent_first(&recent), 0);
    assert_int_equal(tt_recent_end(&recent), 0);
    for (uint64_t i = 0; i < 10; i++)
        tt_recent_put(&recent, (uint64_t[]){i, 100 + i});
    assert_int_equal(tt_recent_first(&recent), 6);
    assert_int_equal(tt_recent_end(&recent), 10);
    assert_false(tt_recent_get(&recent, 5, record));
    for (uint64_t i = 6; i < 10; i++) {
        assert_true(tt_recent_get(&recent, i, record));
        assert_int_equal(record[0], i);
        assert_int_equal(record[1], 100 + i);
    }
    tt_recent_fini(&recent);
}

enum { RECORDS = 300000, WORDS = 5 };

struct shared {
    struct tt_recent recent;
    struct tt_flag done;
};

static void *write_all(void *context) {
    struct shared *shared = context;
    for (uint64_t i = 0; i < RECORDS; i++)
        tt_recent_put(&shared->recent, (uint64_t[WORDS]){i, i * 3, i * 5, i * 7, i * 9});
    tt_flag_raise(&shared->done);
    return NULL;
}

static void readers_never_see_half_a_record(void **state) {
    (void)state;
    static struct shared shared;
    assert_int_equal(tt_recent_init(&shared.recent, 16, WORDS), TT_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_all, &shared), 0);
    int64_t seen = 0;
    for (bool last = false; !last;) {
        last = tt_flag_is_raised(&shared.done);
        uint64_t end = tt_recent_end(&shared.recent);
        for (uint64_t i = tt_recent_first(&shared.recent); i < end; i++) {
            uint64_t record[WORDS];
            if (!tt_recent_get(&shared.recent, i, record))
                continue;
            for (uint64_t w = 0; w < WORDS; w++)
                assert_int_equal(record[w], i * (w ? 2 * w + 1 : 1));
            seen++;
        }
    }
    assert_true(seen >= 16);
    pthread_join(thread, NULL);
    tt_recent_fini(&shared.recent);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_are_kept),
                                       cmocka_unit_test(readers_never_see_half_a_record)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
