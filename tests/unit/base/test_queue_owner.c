/* threaded */
/* Operations that one thread brings and several do, one at a time: none is lost, none is done
 * twice, and they are done in order. */
#include "base/threads/queue_owner.h"

#include "base/err.h"
#include "base/threads/ring.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { OPERATIONS = 100000, SLOTS = 64 };

struct queue {
    struct tt_queue_owner owner;
    int32_t slots[SLOTS];
    int32_t first, done;   /* the owner's; not atomic: ownership orders them */
    struct tt_ring handed; /* the queue, when its producer leaves it to the other thread */
};

/* The owner. True: it does what is left. */
static bool do_one(struct queue *self) {
    tt_assert(self->slots[self->first] == self->done);
    self->first = (self->first + 1) % SLOTS;
    self->done++;
    return tt_queue_owner_done(&self->owner);
}

static void *other_main(void *argument) {
    struct queue *self = argument, *owned;
    for (;;) {
        while (!(owned = tt_ring_pop(&self->handed)))
            sched_yield();
        bool ends = false, goes_on = true;
        while (goes_on) {
            ends = self->done == OPERATIONS - 1;
            goes_on = do_one(self);
        }
        if (ends)
            return NULL;
    }
}

static void test_every_operation_is_done_once(void **state) {
    (void)state;
    static struct queue self;
    pthread_t other;
    tt_queue_owner_init(&self.owner);
    assert_int_equal(tt_ring_init(&self.handed, 4), TT_OK);
    assert_int_equal(pthread_create(&other, NULL, other_main, &self), 0);
    for (int32_t i = 0; i < OPERATIONS; i++) {
        while (tt_queue_owner_count(&self.owner) >= SLOTS)
            sched_yield();
        self.slots[i % SLOTS] = i;
        if (!tt_queue_owner_add(&self.owner))
            continue; /* its owner sees it */
        bool is_own = i % 3 == 0 && i < OPERATIONS - 1;
        if (is_own)
            assert_false(do_one(&self)); /* no other thread adds */
        else
            assert_true(tt_ring_push(&self.handed, &self));
    }
    pthread_join(other, NULL);
    assert_int_equal(self.done, OPERATIONS);
    assert_int_equal(tt_queue_owner_count(&self.owner), 0);
    tt_ring_fini(&self.handed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_operation_is_done_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
