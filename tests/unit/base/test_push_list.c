/* threaded */
/* A list that many threads push to: nothing is lost or taken twice, each thread's nodes come in
 * order, and the taker may free a node at once. */
#include "base/threads/push_list.h"

#include "base/err.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { THREADS = 3, NODES = 50000 };

struct item {
    struct tt_push_node node;
    int32_t thread, number;
};

struct sender {
    struct tt_push_list *list;
    int32_t thread;
};

static struct item *make(int32_t thread, int32_t number) {
    struct item *item = malloc(sizeof(*item));
    tt_assert(item != NULL);
    *item = (struct item){.thread = thread, .number = number};
    return item;
}

static struct item *item_of(struct tt_push_node *node) {
    return TT_CONTAINER_OF(node, struct item, node);
}

static void test_the_oldest_comes_first(void **state) {
    (void)state;
    struct tt_push_list list;
    tt_push_list_init(&list);
    assert_null(tt_push_list_take(&list));
    struct item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    for (int32_t i = 0; i < 3; i++)
        tt_push_list_push(&list, &items[i].node);
    struct tt_push_node *node = tt_push_list_take(&list);
    tt_push_list_push(&list, &items[3].node); /* not into what was taken */
    for (int32_t i = 0; i < 3; i++, node = node->next)
        assert_ptr_equal(node, &items[i].node);
    assert_null(node);
    assert_ptr_equal(tt_push_list_take(&list), &items[3].node);
    assert_null(items[3].node.next);
    assert_null(tt_push_list_take(&list));
}

static void *send_all(void *argument) {
    struct sender *self = argument;
    for (int32_t i = 0; i < NODES; i++)
        tt_push_list_push(self->list, &make(self->thread, i)->node);
    return NULL;
}

static void test_nothing_is_lost(void **state) {
    (void)state;
    struct tt_push_list list;
    struct sender senders[THREADS];
    pthread_t threads[THREADS];
    int32_t next[THREADS] = {0}, taken = 0;
    tt_push_list_init(&list);
    for (int32_t i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){&list, i};
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    }
    while (taken < THREADS * NODES) {
        struct tt_push_node *node = tt_push_list_take(&list);
        if (!node)
            sched_yield();
        for (struct tt_push_node *newer; node; node = newer, taken++) {
            struct item *item = item_of(node);
            newer = node->next;
            assert_int_equal(item->number, next[item->thread]++);
            free(item);
        }
    }
    for (int32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_null(tt_push_list_take(&list));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_oldest_comes_first),
                                       cmocka_unit_test(test_nothing_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
