/* The indexed heap against a plain array. */
#include "base/heap.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void agrees_with_an_array(void **state) {
    (void)state;
    enum { IDS = 40 };
    for (uint64_t seed = test_seed(1), end = seed + 50; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 0);
        struct tt_heap heap;
        assert_int_equal(tt_heap_init(&heap, IDS), TT_OK);
        int64_t keys[IDS];
        bool in[IDS] = {false};
        for (int step = 0; step < 500; step++) {
            int32_t id = (int32_t)tt_prng_below(&prng, IDS);
            if (tt_prng_below(&prng, 3)) {
                keys[id] = (int64_t)tt_prng_below(&prng, 20) - 10;
                in[id] = true;
                tt_heap_set(&heap, id, keys[id], id);
            } else {
                in[id] = false;
                tt_heap_remove(&heap, id);
            }
            tt_heap_check(&heap);
            int32_t best = -1, count = 0;
            for (int32_t i = 0; i < IDS; i++) {
                count += in[i];
                if (in[i] && (best < 0 || keys[i] < keys[best]))
                    best = i;
                if (tt_heap_contains(&heap, i) != in[i] ||
                    (in[i] && tt_heap_key(&heap, i) != keys[i]))
                    fail_msg("seed %d step %d id %d", (int)seed, step, i);
            }
            assert_int_equal(heap.count, count);
            const struct tt_heap_entry *top = tt_heap_top(&heap);
            if ((top ? top->id : -1) != best)
                fail_msg("seed %d step %d", (int)seed, step);
            if (tt_heap_next_key(&heap) != (top ? top->key : INT64_MAX))
                fail_msg("seed %d step %d: the smallest key", (int)seed, step);
        }
        tt_heap_fini(&heap);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
