/* The list against an array, from both ends; and membership. */
#include "base/list.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct item {
    int value;
    struct tt_list_node link;
};
enum { ITEMS = 24 };

static int value_of(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct item, link)->value;
}

static void empty_is_empty(void **state) {
    (void)state;
    struct tt_list list;
    tt_list_init(&list);
    assert_true(tt_list_empty(&list));
    assert_null(tt_list_first(&list));
    assert_null(tt_list_last(&list));
    struct item item = {.value = 1};
    assert_false(tt_list_linked(&item.link));
    tt_list_push_back(&list, &item.link);
    assert_true(tt_list_linked(&item.link));
    assert_false(tt_list_empty(&list));
    assert_ptr_equal(tt_list_first(&list), &item.link);
    assert_ptr_equal(tt_list_last(&list), &item.link);
    assert_null(tt_list_next(&list, &item.link));
    tt_list_remove(&item.link);
    assert_false(tt_list_linked(&item.link));
    assert_true(tt_list_empty(&list));
}

static void compare(struct tt_list *list, const int *model, int count, uint64_t seed) {
    int at = 0;
    for (struct tt_list_node *n = tt_list_first(list); n; n = tt_list_next(list, n), at++)
        if (at >= count || value_of(n) != model[at])
            fail_msg("seed %d: place %d", (int)seed, at);
    assert_int_equal(at, count);
    for (struct tt_list_node *n = list->head.prev; n != &list->head; n = n->prev)
        if (value_of(n) != model[--at])
            fail_msg("seed %d: place %d from behind", (int)seed, at);
    assert_int_equal(at, 0);
    assert_int_equal(tt_list_empty(list), count == 0);
    if (count > 0) {
        assert_int_equal(value_of(tt_list_first(list)), model[0]);
        assert_int_equal(value_of(tt_list_last(list)), model[count - 1]);
    }
}

static void agrees_with_an_array(void **state) {
    (void)state;
    for (uint64_t seed = test_seed(1), end = seed + 50; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 0);
        struct item items[ITEMS] = {0};
        struct tt_list list;
        tt_list_init(&list);
        int model[ITEMS], count = 0;
        for (int step = 0; step < 400; step++) {
            int i = (int)tt_prng_below(&prng, ITEMS);
            items[i].value = i;
            int place = 0;
            while (place < count && model[place] != i)
                place++;
            assert_int_equal(tt_list_linked(&items[i].link), place < count);
            if (place < count) {
                tt_list_remove(&items[i].link);
                count--;
                memmove(model + place, model + place + 1, (size_t)(count - place) * sizeof(int));
            } else {
                place = (int)tt_prng_below(&prng, (uint64_t)count + 1);
                if (place == 0)
                    tt_list_push_front(&list, &items[i].link);
                else if (place == count)
                    tt_list_push_back(&list, &items[i].link);
                else
                    tt_list_insert_before(&items[model[place]].link, &items[i].link);
                memmove(model + place + 1, model + place, (size_t)(count - place) * sizeof(int));
                model[place] = i;
                count++;
            }
            compare(&list, model, count, seed);
        }
    }
}

static void moves_its_front(void **state) {
    (void)state;
    for (int moved = 1; moved <= ITEMS; moved++) {
        struct item items[ITEMS] = {0};
        struct tt_list from, to;
        int order[ITEMS];
        tt_list_init(&from);
        tt_list_init(&to);
        for (int i = 0; i < ITEMS; i++) {
            items[i].value = order[i] = i;
            tt_list_push_back(&from, &items[i].link);
        }
        tt_list_move_front(&from, &items[moved - 1].link, &to);
        compare(&to, order, moved, 0);
        compare(&from, order + moved, ITEMS - moved, 0);
        if (moved < ITEMS) /* and behind what is there already */
            tt_list_move_front(&from, tt_list_last(&from), &to);
        compare(&to, order, ITEMS, 0);
        compare(&from, order, 0, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_its_front),
        cmocka_unit_test(empty_is_empty),
        cmocka_unit_test(agrees_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
