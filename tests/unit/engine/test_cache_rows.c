/* Rows of caches hold what was written, and take memory for that alone. */
#include "engine/cache_rows.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 5, BYTES = 3 * TT_CACHE_PAGED_BYTES + 1234, ROUNDS = 400 };

static size_t page_of_system(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static char *map(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
    return memory;
}

static size_t pages_taken(char *memory, size_t bytes) {
    size_t page = page_of_system(), count = (bytes + page - 1) / page, taken = 0;
    unsigned char *residence = test_malloc(count);
    assert_int_equal(mincore(memory, bytes, residence), 0);
    for (size_t i = 0; i < count; i++)
        taken += residence[i] & 1;
    test_free(residence);
    return taken;
}

/* Drawn writes, clears and copies: the rows hold the same as plain memory does. */
static void rows_hold_what_was_written(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(20261130), 1);
    for (int32_t small = 0; small < 2; small++) {
        size_t bytes = small ? TT_CACHE_PAGED_BYTES / 2 + 77 : BYTES, all = ROWS * bytes;
        char *rows = map(all), *plain = map(all);
        for (int32_t i = 0; i < ROUNDS; i++) {
            size_t row = tt_prng_below(&prng, ROWS), other = tt_prng_below(&prng, ROWS);
            size_t at = tt_prng_below(&prng, bytes), most = bytes - at < 9000 ? bytes - at : 9000;
            size_t length = 1 + tt_prng_below(&prng, most);
            switch (tt_prng_below(&prng, 4)) {
            case 0:
                tt_cache_row_clear(rows + row * bytes, bytes);
                memset(plain + row * bytes, 0, bytes);
                break;
            case 1:
                if (row == other)
                    break;
                tt_cache_row_copy(rows + row * bytes, rows + other * bytes, bytes);
                memcpy(plain + row * bytes, plain + other * bytes, bytes);
                break;
            default:
                memset(rows + row * bytes + at, i % 255 + 1, length);
                memset(plain + row * bytes + at, i % 255 + 1, length);
            }
            assert_memory_equal(rows, plain, all);
        }
        munmap(rows, all);
        munmap(plain, all);
    }
}

static void pages_are_given_back(void **state) {
    (void)state;
    size_t all = ROWS * (size_t)BYTES, page = page_of_system();
    if (page != 4096)
        skip();
    char *rows = map(all);
    memset(rows, 1, all);
    assert_int_equal(pages_taken(rows, all), (all + page - 1) / page);
    for (size_t i = 0; i < ROWS; i++)
        tt_cache_row_clear(rows + i * BYTES, BYTES);
    /* Only pages that two rows share, and the last one, were written. */
    assert_true(pages_taken(rows, all) <= ROWS + 1);
    memset(rows + BYTES / 2, 1, 1);
    size_t to = 2 * (size_t)BYTES, inside = (to + page - 1) / page * page;
    tt_cache_row_copy(rows + to, rows, BYTES);
    assert_int_equal(pages_taken(rows + inside, BYTES - 2 * page), 1);
    assert_int_equal(rows[to + BYTES / 2], 1);
    munmap(rows, all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_hold_what_was_written),
                                       cmocka_unit_test(pages_are_given_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
