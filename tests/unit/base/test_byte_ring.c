#include "base/threads/byte_ring.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void whole_or_not_at_all(void **state) {
    (void)state;
    struct tt_byte_ring ring;
    struct tt_byte_piece pieces[2];
    assert_int_equal(tt_byte_ring_init(&ring, 5), TT_OK); /* 8 */
    assert_int_equal(tt_byte_ring_peek(&ring, pieces), 0);
    assert_true(tt_byte_ring_put(&ring, "abcdef", 6));
    assert_false(tt_byte_ring_put(&ring, "ghi", 3));
    assert_true(tt_byte_ring_put(&ring, "gh", 2));
    assert_false(tt_byte_ring_put(&ring, "i", 1));
    assert_int_equal(tt_byte_ring_peek(&ring, pieces), 8);
    tt_byte_ring_take(&ring, 5);
    assert_true(tt_byte_ring_put(&ring, "ijkl", 4)); /* around the end */
    assert_int_equal(tt_byte_ring_peek(&ring, pieces), 7);
    assert_int_equal(pieces[0].count, 3);
    assert_memory_equal(pieces[0].bytes, "fgh", 3);
    assert_int_equal(pieces[1].count, 4);
    assert_memory_equal(pieces[1].bytes, "ijkl", 4);
    assert_false(tt_byte_ring_put(&ring, "123456789", 9));
    tt_byte_ring_fini(&ring);
}

enum { MESSAGES = 200000 };

/* Messages of 1 to 30 bytes, each its length and then a running count. */
static void *produce(void *context) {
    struct tt_byte_ring *ring = context;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    uint8_t running = 0;
    for (int32_t i = 0; i < MESSAGES; i++) {
        uint8_t message[31];
        uint8_t length = (uint8_t)(1 + tt_prng_below(&prng, 30));
        message[0] = length;
        for (int32_t k = 1; k <= length; k++)
            message[k] = running++;
        while (!tt_byte_ring_put(ring, message, length + 1u)) {
        }
    }
    return NULL;
}

static void two_threads(void **state) {
    (void)state;
    struct tt_byte_ring ring;
    assert_int_equal(tt_byte_ring_init(&ring, 256), TT_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, &ring), 0);
    uint8_t running = 0;
    for (int32_t got = 0; got < MESSAGES;) {
        struct tt_byte_piece pieces[2];
        size_t count = tt_byte_ring_peek(&ring, pieces);
        uint8_t all[256];
        assert_true(count <= sizeof(all));
        memcpy(all, pieces[0].bytes, pieces[0].count);
        memcpy(all + pieces[0].count, pieces[1].bytes, pieces[1].count);
        size_t at = 0;
        while (at < count) { /* only whole messages */
            size_t length = all[at++];
            assert_true(length <= count - at);
            for (size_t k = 0; k < length; k++)
                assert_int_equal(all[at + k], running++);
            at += length;
            got++;
        }
        tt_byte_ring_take(&ring, count);
    }
    pthread_join(thread, NULL);
    tt_byte_ring_fini(&ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_or_not_at_all),
                                       cmocka_unit_test(two_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
