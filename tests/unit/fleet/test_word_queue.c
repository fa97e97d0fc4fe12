/* Words between the records that announce them and the frames that carry them: against a plain copy
 * of all that was appended. */
#include "fleet/word_queue.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 2000, CHUNKS = 8, WORDS = 5, WORD = 4 };

static void chunks_come_back_in_order(void **state) {
    (void)state;
    struct tt_prng prng;
    struct tt_word_queue queue = {.bytes = NULL};
    uint32_t next = 0, expected = 0;
    tt_prng_init(&prng, test_seed(1), 3);
    for (int32_t round = 0; round < ROUNDS; round++) {
        size_t sizes[CHUNKS];
        int32_t count = (int32_t)tt_prng_below(&prng, CHUNKS + 1), asked = 0, taken = 0;
        for (int32_t c = 0; c < count; c++) {
            tt_word_queue_begin(&queue);
            uint64_t words = 1 + tt_prng_below(&prng, WORDS);
            sizes[c] = (size_t)words * WORD;
            for (uint64_t w = 0; w < words; w++, next++)
                tt_word_queue_append(&queue, &next, WORD);
        }
        while (taken < count) { /* sizes of some are asked for before the first is taken */
            if (asked < count && (asked == taken || tt_prng_below(&prng, 2))) {
                assert_int_equal(tt_word_queue_next(&queue), sizes[asked]);
                asked++;
                continue;
            }
            size_t bytes;
            const uint8_t *content = tt_word_queue_take(&queue, &bytes);
            assert_int_equal(bytes, sizes[taken]);
            taken++;
            for (size_t at = 0; at < bytes; at += WORD, expected++)
                assert_memory_equal(content + at, &expected, WORD);
        }
        assert_int_equal(expected, next);
    }
    assert_true(queue.capacity < (int64_t)ROUNDS * WORD); /* it begins anew */
    tt_word_queue_fini(&queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks_come_back_in_order)};
    return cmocka_run_group_tests_name("words of a turn", tests, NULL, NULL);
}
